// Small things kept in this browser. Where it keeps nothing, they last as long as the page.

const lost = new Map();

// area is "localStorage" (for good) or "sessionStorage" (as long as the tab).
export const get = (area, name) => {
  try {
    return window[area].getItem(name);
  } catch {
    return lost.get(name) ?? null;
  }
};

// Returns whether it will outlast the page.
export const put = (area, name, value) => {
  try {
    window[area].setItem(name, value);
    return true;
  } catch {
    lost.set(name, value);
    return false;
  }
};
