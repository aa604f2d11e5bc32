// The text as it forms: one span a position, shaded by how sure the model was, masks as blocks.
// Only what changed is touched, so that a word fades in where it was committed.

import { byId, make } from "./dom.js";
import { MASK, fate, reveals } from "./run.js";
import { number, probability, quoted } from "./reading.js";

const box = byId("text");
const word = byId("word");
const LEGEND = "Shade: how sure the model was. Point at a word to see what else was tried.";
let shown = { tokens: [], run: null, node: null };
let active = null;

const shade = (p) => (p === null || p === undefined ? "" : ["c0", "c1", "c2", "c3", "c4"][[0.1, 0.25, 0.5, 0.8].filter((edge) => p >= edge).length]);

const sure = (token) => token.p !== undefined && token.p !== null;

const put = (span, token) => {
  if (!token) {
    span.className = "mask";
    span.textContent = MASK;
    span.setAttribute("aria-hidden", "true");
    return;
  }
  const fresh = span.classList.contains("mask");
  span.removeAttribute("aria-hidden");
  const written = token.written || sure(token);
  span.className = [written ? "written" : "given", token.end && "end", fresh && "fresh"].filter(Boolean).join(" ");
  // The space before a word is not shaded, so that words stand apart.
  const space = token.text.length - token.text.trimStart().length;
  span.replaceChildren(token.text.slice(0, space), make("span", { class: written ? `c ${shade(token.p)}` : null }, token.text.slice(space)));
};

const same = (a, b) => a === b || (a && b && a.text === b.text && a.p === b.p && a.end === b.end);

// Shows tokens; with a run and a node, words know what else was tried.
export const show = (tokens, run = null, node = null) => {
  for (let at = 0; at < tokens.length; at++) {
    const span = box.children[at] ?? box.appendChild(make("span"));
    if (span.className === "" || !same(tokens[at], shown.tokens[at] ?? undefined)) put(span, tokens[at]);
  }
  while (box.children.length > tokens.length) box.lastElementChild.remove();
  shown = { tokens, run, node };
  if (active !== null) describe(active < tokens.length ? active : null);
};

export const state = (name) => {
  box.dataset.state = name;
  box.setAttribute("aria-busy", String(name === "running"));
};

const describe = (at) => {
  box.children[active]?.classList.remove("active");
  active = at;
  const token = at === null ? null : shown.tokens[at];
  if (at === null) return word.replaceChildren(LEGEND);
  box.children[at].classList.add("active");
  if (!token) return word.replaceChildren("A mask: nothing is decided here yet.");
  if (!sure(token)) return word.replaceChildren(token.written ? "How sure the model was is not known." : "This was given.");
  const found = [make("b", {}, token.end ? "the end" : quoted(token.text)), ` · the model gave it ${probability(token.p)}`];
  const own = shown.node && shown.run.revealer(shown.node, at);
  if (own) {
    found.push(` · step ${own.column}, value ${number(own.value)}`);
    const others = (own.parent?.children ?? []).filter((each) => each !== own).sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
    if (others.length) found.push(make("br"), "also tried: ");
    others.slice(0, 6).forEach((each, index) => {
      const text = reveals(each).map(([, { text }]) => quoted(text)).join(" ");
      found.push(index ? ", " : "", make("span", { title: fate(each) }, `${text} ${number(each.value)}${each.kept ? " (kept too)" : ""}`));
    });
    if (others.length > 6) found.push(` and ${others.length - 6} more`);
  }
  word.replaceChildren(...found);
};

const at = (event) => {
  const index = [...box.children].indexOf(event.target.closest("#text > span"));
  return index < 0 ? null : index;
};
box.addEventListener("pointerover", (event) => event.pointerType === "mouse" && at(event) !== null && describe(at(event)));
box.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && document.activeElement !== box && describe(null));
box.addEventListener("click", (event) => at(event) !== null && describe(at(event)));
box.addEventListener("blur", () => describe(null));
box.addEventListener("keydown", (event) => {
  const last = shown.tokens.length - 1;
  // Tokens that show nothing are passed over.
  const walk = (from, by) => {
    let at = from;
    do at += by; while (shown.tokens[at]?.text === "");
    return at < 0 || at > last ? Math.max(from, 0) : at;
  };
  const to = { ArrowRight: walk(active ?? -1, 1), ArrowLeft: walk(active ?? 1, -1), Home: 0, End: last }[event.key];
  if (to === undefined || last < 0) return;
  event.preventDefault();
  describe(to);
});
describe(null);
