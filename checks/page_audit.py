"""What holds of the playground at any width and in any colours: names, contrast, no sideways scrolling."""

# Text whose contrast with the ground behind it is below WCAG AA, as "ratio: text".
CONTRAST = r"""
const parse = (css) => { const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  c.clearRect(0, 0, 1, 1); c.fillStyle = css; c.fillRect(0, 0, 1, 1); const d = c.getImageData(0, 0, 1, 1).data;
  return [d[0], d[1], d[2], d[3] / 255]; };
const seen = new Map();
const colour = (css) => { if (!seen.has(css)) seen.set(css, parse(css)); return seen.get(css); };
const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
const light = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (e) => e ? over(colour(getComputedStyle(e).backgroundColor), ground(e.parentElement)) : [255, 255, 255];
const found = [];
for (const e of document.querySelectorAll('body *')) {
  if (e.closest('svg, option, datalist, :disabled, .mask, .mask-sample, .hidden, dialog:not([open])') || !e.checkVisibility()) continue;
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.matches('input:not([type=range], [type=radio], [type=checkbox]), textarea, select');
  if (!own) continue;
  const style = getComputedStyle(e), under = ground(e), a = light(over(colour(style.color), under)), b = light(under);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) found.push(ratio.toFixed(2) + ': ' + e.tagName + ' ' + (e.textContent || e.value).slice(0, 40));
}
return found;
"""

# Elements that stick out of the window sideways and lie in no box that scrolls.
OUTSIDE = r"""
const scrolls = (e) => e && (['auto', 'scroll', 'hidden'].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
return [document.documentElement.scrollWidth > innerWidth && 'the page', ...[...document.querySelectorAll('body *')]
  .filter((e) => e.checkVisibility() && !e.closest('svg') && e.getBoundingClientRect().right > innerWidth + 0.5 && !scrolls(e.parentElement))
  .map((e) => e.tagName + '#' + e.id + '.' + e.className)].filter(Boolean);
"""

NAMED = {"button", "textbox", "slider", "spinbutton", "combobox", "ComboBoxMenuList", "checkbox", "radio", "link", "progressbar", "searchbox"}


def nameless(browser):
    """Controls that a screen reader could not name."""
    nodes = browser.cdp("Accessibility.getFullAXTree", {})["nodes"]
    return [node["role"]["value"] for node in nodes
            if not node.get("ignored") and node["role"]["value"] in NAMED and not node.get("name", {}).get("value", "").strip()]


def audit(browser, check, name):
    """All of it, in light and dark, at the present width."""
    for scheme in ("light", "dark"):
        browser.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
        faint = browser.run(CONTRAST)
        check(f"{name}, {scheme}: all text has the contrast of WCAG AA {faint or ''}", not faint)
        browser.picture(f"{name}-{scheme}")
    outside = browser.run(OUTSIDE)
    check(f"{name}: nothing sticks out sideways {outside or ''}", not outside)
    unnamed = nameless(browser)
    check(f"{name}: every control has a name {unnamed or ''}", not unnamed)
