// The search tree: columns are steps, dots are texts, lines lead from parent to child.
// The higher a dot, the better its value. Grows column by column; a column draws its kept nodes and at most SHOWN of the pruned, the best first, and says what it left out.

import { byId, draw, make } from "./dom.js";
import { MASK, fate, reveals } from "./run.js";
import { count, number, probability, quoted } from "./reading.js";

const SHOWN = 24;
const PAD = 14, HIGH = 150, GAP = 10;

const box = byId("tree");
const detail = byId("node");
let run = null;
let view = null; // { svg, layers, places, drawn, dx, bottom, steps, low, high }
let seen = 0; // columns that were on the screen before, and do not fade in again
let chosen = null;
let until = Infinity;

const best = (a, b) => Number(b.kept) - Number(a.kept) || (b.value ?? -Infinity) - (a.value ?? -Infinity) || a.id - b.id;

// Down a column: by value, of equals the kept first.
const order = (a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity) || best(a, b);

const name = (node) => (node.parent ? reveals(node).map(([, { text }]) => quoted(text)).join(" ") || "nothing revealed" : "the start");

const label = (node) => `step ${node.column}, ${name(node)}, value ${number(node.value)}, ${fate(node)}`;

// Begins a new tree, or an empty one with a word on why.
export const begin = (of, why = "") => {
  run = of;
  chosen = null;
  until = Infinity;
  view = null;
  seen = 0;
  box.replaceChildren(...(why ? [make("p", { class: "hint" }, why)] : []));
  describe(null);
};

// The values between which dots are placed: those of kept nodes, so that a hopeless child squeezes nothing.
const range = () => {
  const values = run.columns.slice(1).flat().filter((node) => node.kept && Number.isFinite(node.value)).map((node) => node.value);
  return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
};

const layout = (slack) => {
  const steps = Math.max(run.last?.steps ?? 1, run.columns.length - 1, 1);
  const dx = Math.min(Math.max((box.clientWidth - 2 * PAD) / steps, 11), 40);
  const svg = draw("svg", { class: "dots", role: "group", "aria-label": "Search tree", onkeydown: key, onpointermove: point, onclick: click });
  const layers = Object.fromEntries(["pruned", "kept", "answer", "line", "nodes"].map((each) => [each, svg.appendChild(draw("g", { class: each }))]));
  const [low, high] = range();
  const room = high > low ? (high - low) * slack : 0;
  view = { svg, layers, places: new Map(), drawn: 0, dx, bottom: PAD, steps, low: low - room, high: high + room };
  const scrolled = box.scrollLeft;
  box.replaceChildren(svg);
  return scrolled;
};

const height = (value) => {
  if (!Number.isFinite(value)) return HIGH;
  return view.high > view.low ? Math.min(Math.max((view.high - value) / (view.high - view.low), 0), 1) * HIGH : 0;
};

const line = (from, to) => {
  const half = (from.x + to.x) / 2;
  return `M${from.x} ${from.y}C${half} ${from.y} ${half} ${to.y} ${to.x} ${to.y}`;
};

const stays = (node) => node.kept || !node.parent;

const column = (index) => {
  const nodes = (run.columns[index] ?? []).slice().sort(order);
  let room = SHOWN;
  const drawn = nodes.filter((node) => stays(node) || room-- > 0);
  // While a column fades in, all of the picture is painted again and again: large trees grow without it.
  const dots = view.layers.nodes.appendChild(draw("g", { class: index >= seen && view.places.size < 1000 ? "grow" : null }));
  const x = PAD + index * view.dx;
  let pruned = "", above = -Infinity;
  for (const node of drawn) {
    const place = { x, y: PAD + Math.max(height(node.value), above + GAP) };
    above = place.y - PAD;
    view.places.set(node, place);
    const from = node.parent && view.places.get(node.parent);
    if (from && stays(node)) view.layers.kept.append(draw("path", { d: line(from, place) }));
    else if (from) pruned += line(from, place);
    place.dot = dots.appendChild(draw("circle", {
      cx: x, cy: place.y, r: stays(node) ? 4.5 : 3.2, class: stays(node) ? "kept" : "pruned", tabindex: "-1", role: "button",
      "data-testid": "tree-node", "data-id": node.id, "aria-label": label(node), "aria-describedby": "node",
    }));
    view.bottom = Math.max(view.bottom, place.y);
  }
  if (pruned) view.layers.pruned.append(draw("path", { d: pruned }));
  const left = nodes.length - drawn.length;
  if (left > 0) {
    dots.append(draw("text", { x, y: PAD + above + GAP + 4, class: "left" }, `+${count(left)}`));
    view.bottom = Math.max(view.bottom, PAD + above + GAP);
  }
};

// Draws what has come since the last call; all of it anew when the values outgrow the picture.
export const grow = (slack = 0.4) => {
  if (!run?.columns.length) return;
  const [low, high] = range();
  let scrolled = box.scrollLeft;
  const follow = !view || scrolled + box.clientWidth >= view.drawn * view.dx;
  if (!view || low < view.low || high > view.high || view.steps < run.columns.length - 1) scrolled = layout(slack);
  for (; view.drawn < run.columns.length; view.drawn++) column(view.drawn);
  seen = view.drawn;
  const wide = 2 * PAD + view.steps * view.dx, tall = Math.max(view.bottom, PAD + HIGH) + PAD;
  // Touched only when it changes: every dot would be laid out again.
  if (view.size !== `${wide} ${tall}`) {
    view.size = `${wide} ${tall}`;
    for (const [attribute, value] of Object.entries({ width: wide, height: tall, viewBox: `0 0 ${view.size}` })) view.svg.setAttribute(attribute, value);
  }
  box.scrollLeft = follow ? view.drawn * view.dx - box.clientWidth + 3 * PAD : scrolled;
  if (chosen) circle(chosen)?.classList.add("on");
  circle(reached())?.setAttribute("tabindex", "0");
  mark();
};

// Draws it all again, the values filling the picture.
export const fit = () => {
  if (!run?.columns.length) return;
  const focus = view?.svg.contains(document.activeElement);
  view = null;
  grow(0);
  if (focus && chosen) circle(chosen)?.focus();
};

const circle = (node) => view?.places.get(node)?.dot ?? null;

// The one dot that the tab key reaches.
const reached = () => (chosen && circle(chosen) ? chosen : run.columns[0][0]);

const trail = (node) => {
  const places = run.path(node).map((each) => view.places.get(each)).filter(Boolean);
  return places.slice(1).map((place, at) => line(places[at], place)).join("");
};

const mark = () => {
  if (!view) return;
  const end = run.answer && run.nodes.get(run.last?.node);
  view.layers.answer.replaceChildren(...(end ? [draw("path", { d: trail(end) })] : []));
  if (end) for (const each of run.path(end)) circle(each)?.classList.add("answer");
  view.layers.line.replaceChildren(...(chosen ? [draw("path", { d: trail(chosen) })] : []));
  const edge = PAD + (until + 0.5) * view.dx;
  const later = until < view.drawn - 1 ? [draw("rect", { class: "veil", x: edge, y: 0, width: Math.max(PAD * 2 + view.steps * view.dx - edge, 0), height: "100%" })] : [];
  view.svg.querySelector(".veil")?.remove();
  view.svg.append(...later);
};

// Veils what came after a step.
export const upTo = (step) => {
  until = step;
  mark();
};

const pieces = (tokens) =>
  tokens.map((token) => (token ? make("span", { class: token.p === undefined ? "given" : "" }, token.text) : make("span", { class: "mask", "aria-hidden": "true" }, MASK)));

const describe = (node) => {
  if (!node) {
    detail.replaceChildren();
    return;
  }
  const up = node.parent;
  const down = node.children.slice().sort(best)[0];
  const facts = [`value ${number(node.value)}`];
  if (up && Number.isFinite(node.rank)) facts.push(node.rank === 0 ? "the model’s first choice" : `the model’s choice no. ${node.rank + 1}`);
  if (Number.isFinite(node.p)) facts.push(`it gave it ${probability(node.p)}`);
  facts.push(`${count(node.masks_left)} masks left`);
  const go = (to, text) => make("button", { type: "button", disabled: !to, onclick: () => choose(to) }, text);
  detail.replaceChildren(
    make("p", { class: "head" }, make("b", {}, up ? `Step ${node.column}: ${name(node)}` : "The start"), " ",
      make("span", { class: `fate ${node.kept || !up ? "kept" : "pruned"}` }, up ? fate(node) : "start")),
    make("p", { class: "prose" }, ...pieces(run.tokensOf(node))),
    make("p", { class: "hint" }, facts.join(" · ")),
    make("p", { class: "buttons" }, go(up, "← parent"), go(down, "best child →")),
  );
};

const choose = (node, focus = false) => {
  if (chosen) circle(chosen)?.classList.remove("on");
  circle(reached())?.setAttribute("tabindex", "-1");
  chosen = node;
  const dot = circle(node);
  dot?.classList.add("on");
  dot?.setAttribute("tabindex", "0");
  describe(node);
  mark();
  if (focus) dot?.focus();
};

const nearest = (event) => {
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(view.svg.getScreenCTM().inverse());
  let found = null, least = 16;
  for (const [node, { x, y }] of view.places) {
    const far = Math.hypot(x - at.x, y - at.y);
    if (far < least) [found, least] = [node, far];
  }
  return found;
};

const point = (event) => {
  const node = event.pointerType === "mouse" && nearest(event);
  if (node && node !== chosen) choose(node);
};

const click = (event) => {
  const node = run.nodes.get(Number(event.target.dataset?.id)) ?? nearest(event);
  if (node) choose(node, true);
};

const key = (event) => {
  const node = run.nodes.get(Number(event.target.dataset?.id));
  if (!node) return;
  const own = (run.columns[node.column] ?? []).slice().sort(order).filter((each) => view.places.has(each));
  const at = own.indexOf(node);
  const to = {
    ArrowLeft: node.parent, ArrowRight: node.children.slice().sort(best)[0], ArrowUp: own[at - 1], ArrowDown: own[at + 1],
    Home: run.columns[0]?.[0], End: run.nodes.get(run.last?.node), Enter: node, " ": node,
  };
  if (!(event.key in to)) return;
  event.preventDefault();
  if (to[event.key]) choose(to[event.key], true);
};

let width = box.clientWidth;
new ResizeObserver(() => {
  if (box.clientWidth === width) return;
  width = box.clientWidth;
  if (view) fit();
}).observe(box);
