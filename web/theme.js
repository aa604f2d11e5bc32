// Light, dark, or what the browser wishes.

import { byId } from "./dom.js";
import * as keep from "./keep.js";

const NAMES = ["auto", "light", "dark"];

const wear = (name) => {
  if (name === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `◐ ${name}`;
  byId("theme").setAttribute("aria-label", `Colours: ${name}`);
};

const stored = keep.get("localStorage", "treasure.theme");
wear(NAMES.includes(stored) ? stored : "auto");
byId("theme").addEventListener("click", () => {
  const next = NAMES[(NAMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % NAMES.length];
  wear(next);
  keep.put("localStorage", "treasure.theme", next);
});
