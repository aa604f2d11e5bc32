// The form: settings in and out of the fields, rewards as chips, refusals beside the field they belong to.

import { byId, make } from "./dom.js";
import { count, heldOut, known } from "./reading.js";
import { PLANNED, holes, join, predict, split, taken } from "./request.js";

const NUMBERS = ["beam_width", "tree_width", "prior", "min_p", "max_tokens", "min_length", "seed"];
const SLIDERS = ["beam_width", "tree_width", "prior", "min_p"];
const TEXTS = ["model", "matches", "judge", "extra"];

const chips = byId("chips");
const add = byId("reward-add");
const prompt = byId("prompt");
let parts = [];
let offered = [];
let fallback = "";
let lacking = []; // options that the server does not have: hidden, unless a link asks for them
let talkers = []; // models that answer by a chat template
// The prompt and the template wait for each other when the mode changes.
const waiting = { continue: "", fill: "" };
let shown = "continue"; // which of them the field holds
let changed = () => {};
let rewarded = () => {};
// The second opinion that the page proposed, until somebody writes another.
let proposed = null;

// A name of its own, lest a field hide a property of the form (`form.matches`).
const field = (name) => byId(`set-${name}`);
const slide = (name) => byId(`set-${name}-slide`);

const mode = () => document.querySelector("input[name=mode]:checked").value;
// What is said and what is continued are one prompt.
const kind = () => (mode() === "fill" ? "fill" : "continue");

export const onChange = (listener) => {
  changed = listener;
};

// Told whenever the reward is another; the defaults follow it.
export const onReward = (listener) => {
  rewarded = listener;
};

// A judge that no search is paid for, beside the first reward that has one.
const propose = () => {
  if (proposed === null || field("judge").value !== proposed) return;
  proposed = parts.map(({ spec }) => heldOut(spec)).find(Boolean) ?? "";
  field("judge").value = proposed;
};

// Proposes one from here on.
export const proposing = () => {
  proposed = "";
  propose();
  refresh();
};

// What the plan takes stands in the fields that are empty.
export const planned = () => {
  const none = Object.fromEntries(PLANNED.map((name) => [name, null]));
  for (const name of PLANNED) field(name).placeholder = String(taken(none, name) ?? "");
  for (const name of SLIDERS) {
    const usual = Number(taken(none, name));
    if (usual > Number(slide(name).max)) slide(name).max = String(usual);
    if (field(name).value === "") slide(name).value = String(taken(none, name) ?? slide(name).min);
  }
  refresh();
};

const reward = () => {
  propose();
  rewarded(join(parts));
};

const refresh = () => {
  const settings = read();
  const cost = predict(settings);
  byId("predicted").textContent = cost
    ? `Costs ≈ ${count(cost.nfe)} model + ${cost.fewer ? "up to " : ""}${count(cost.reward_calls)} judge calls`
    : "Cost not known beforehand";
  const filling = settings.mode === "fill", talking = settings.mode === "chat";
  byId("prompt-hint").textContent = filling
    ? `[MASK:5] is a hole of five tokens; ${count(holes(settings.template))} to fill.`
    : talking ? "The model answers, by its own chat template." : "The text goes on from here.";
  byId("talk").hidden = !talking && !talkers.includes(settings.model);
  for (const name of ["max_tokens", "min_length"]) field(name).disabled = filling;
  changed(settings);
};

// The settings as they stand: null where a field is left to the plan. Numbers that are none are NaN; `faults` names them.
export const read = () => {
  waiting[kind()] = prompt.value;
  const settings = { mode: mode(), prompt: waiting.continue, template: waiting.fill, reward: join(parts) };
  for (const name of TEXTS) settings[name] = field(name).value;
  for (const name of NUMBERS) settings[name] = number(name);
  return settings;
};

const number = (name) => {
  const { value, validity } = field(name);
  if (value.trim() !== "") return Number(value);
  return PLANNED.includes(name) && !validity.badInput ? null : NaN;
};

// What keeps these settings from being sent, as refusals.
export const faults = (settings) => {
  const found = [];
  for (const name of NUMBERS) {
    if (settings.mode === "fill" && (name === "max_tokens" || name === "min_length")) continue;
    const param = name === "max_tokens" || name === "seed" ? name : `treasure.${name}`;
    const fits = name === "prior" || name === "min_p" ? Number.isFinite : Number.isSafeInteger;
    if (settings[name] !== null && !fits(settings[name])) found.push({ param, message: `expected ${fits === Number.isFinite ? "a number" : "a whole number"}, got ${field(name).value || "nothing"}` });
  }
  if (settings.mode === "fill" && !holes(settings.template)) {
    found.push({ param: "treasure.template", message: "expected a hole, got none", hint: "Write [MASK:5] where five tokens should go." });
  }
  if (parts.some(({ weight }) => !Number.isFinite(weight))) found.push({ param: "treasure.reward", message: "expected a number as weight, got nothing" });
  return found;
};

export const write = (settings) => {
  document.querySelector(`input[name=mode][value=${settings.mode}]`).checked = true;
  waiting.continue = settings.prompt;
  waiting.fill = settings.template;
  shown = kind();
  prompt.value = waiting[shown];
  for (const name of TEXTS) if (name !== "model") field(name).value = settings[name];
  model(settings.model);
  for (const name of NUMBERS) field(name).value = String(settings[name] ?? "");
  for (const name of SLIDERS) slide(name).value = String(taken(settings, name) ?? "");
  for (const name of ["prior", "min_p", "matches", "judge"]) {
    field(name).closest("[data-param]").hidden = lacking.includes(name) && !settings[name];
  }
  parts = split(settings.reward);
  proposed = null;
  if (settings.matches || settings.judge || settings.extra) byId("more").open = true;
  list();
  clear();
  refresh();
  reward();
};

// A model that a link names and the server lacks is still asked for: the server says what it has.
const model = (name) => {
  const select = field("model");
  if (name && ![...select.options].some((option) => option.value === name)) select.append(make("option", { value: name }, name));
  if (name) select.value = name;
};

// What the server has: models, rewards, bounds of its schema.
export const offer = (models, rewards, schema) => {
  talkers = models.filter(({ chat }) => chat).map(({ id }) => id);
  field("model").replaceChildren(...models.map(({ id }) => make("option", { value: id }, id)));
  byId("known-rewards").replaceChildren(...rewards.map(({ id, example, description }) => make("option", { value: example ?? id }, description ?? "")));
  offered = rewards.filter(({ id }) => !id.endsWith(":"));
  fallback = schema?.properties?.reward?.default ?? "";
  for (const name of SLIDERS) {
    const most = schema?.properties?.[name]?.maximum;
    if (Number.isFinite(most)) field(name).max = String(most);
    if (Number.isFinite(most) && most < Number(slide(name).max)) slide(name).max = String(most);
  }
  lacking = schema?.properties ? ["prior", "min_p", "matches", "judge"].filter((name) => !(name in schema.properties)) : [];
};

const list = () => {
  chips.replaceChildren(...parts.map((part, at) => make("li", { class: "chip", "data-testid": "reward-chip" },
    make("span", { class: "spec", title: known(part.spec)?.description }, part.spec),
    make("label", {}, "×", make("input", {
      type: "number", step: "any", value: Number.isFinite(part.weight) ? part.weight : "", "aria-label": `Weight of ${part.spec}`,
      oninput: (event) => {
        part.weight = event.target.value.trim() === "" ? NaN : Number(event.target.value);
        clear();
        refresh();
        reward();
      },
    })),
    make("button", { type: "button", "aria-label": `Remove ${part.spec}`, onclick: () => remove(at) }, "✕"))));
  if (!parts.length) chips.append(make("li", { class: "hint" }, fallback ? `Nothing chosen: the server’s default, ${fallback}.` : "Nothing chosen: the server’s default."));
  byId("suggestions").replaceChildren(...offered.filter(({ id }) => !parts.some(({ spec }) => spec === id)).slice(0, 5).map(({ id, description }) =>
    make("button", { type: "button", class: "suggestion", title: description, "aria-label": `Add ${id}`, onclick: () => push(id) }, `+ ${id}`)));
};

const remove = (at) => {
  parts.splice(at, 1);
  clear();
  list();
  refresh();
  reward();
  (chips.querySelectorAll(".chip button")[Math.min(at, parts.length - 1)] ?? add).focus();
};

const push = (text) => {
  const more = split(text);
  if (!more.length) return;
  parts = [...parts, ...more];
  clear();
  list();
  refresh();
  reward();
};

// Takes in a reward that was typed and not yet added.
export const settle = () => {
  push(add.value);
  add.value = "";
};

// Takes every refusal off the form.
export const clear = () => {
  for (const each of document.querySelectorAll(".error, .passing")) each.remove();
  for (const each of document.querySelectorAll("[aria-invalid]")) {
    each.removeAttribute("aria-invalid");
    each.removeAttribute("aria-errormessage");
  }
  for (const each of chips.querySelectorAll(".faulty")) each.classList.remove("faulty");
};

const place = (param) => {
  const homes = [...document.querySelectorAll("[data-param]")];
  const home = (name) => homes.find((each) => each.dataset.param.split(" ").includes(name));
  if (!param) return home("*");
  const bare = param.replace(/\[.*$/, "");
  return home(bare) ?? home(`treasure.${bare}`) ?? home(bare.replace(/^treasure\./, "")) ?? (bare.startsWith("treasure") ? home("treasure") : home("*"));
};

// Shows a refusal beside its field, in the server's words, with its hint and what else helps.
export const refuse = ({ message, hint, param }, ...more) => {
  const spot = place(param);
  const box = make("div", { class: "error", role: "alert", "data-testid": "error", id: "error" }, ...worded(message), hint && make("p", { class: "advice" }, make("b", {}, "hint: "), hint), ...more);
  const home = spot.matches("select") ? byId("general") : spot;
  home.append(box);
  spot.closest("details")?.setAttribute("open", "");
  const reward = param?.endsWith("reward") ? faulty(caret(message)) ?? add : null;
  const main = reward ?? (spot.matches("input, select") ? spot : spot.querySelector("input:not([type=range]):not([type=radio]), textarea"));
  main?.setAttribute("aria-invalid", "true");
  main?.setAttribute("aria-errormessage", "error");
  box.scrollIntoView({ block: "nearest" });
  (more[0]?.querySelector("input") ?? main)?.focus({ preventScroll: true });
};

// A message of the command line that points into a specification: what it says, the specification, and the column of its caret.
const caret = (message) => {
  const found = /^([\s\S]*?)\n( *)(\S.*)\n( *)\^\s*$/.exec(message);
  return found && { says: found[1], spec: found[3], column: found[4].length - found[2].length };
};

// The message; what its caret points at is underlined, since lines may wrap here.
const worded = (message) => {
  const found = caret(message);
  if (!found) return [make("p", { class: "message" }, message)];
  const { says, spec, column } = found;
  const rest = spec.slice(column).search(/\s\+\s|$/);
  const [before, wrong, after] = [spec.slice(0, column), spec.slice(column, column + rest), spec.slice(column + rest)];
  return [make("p", { class: "message" }, says), make("p", { class: "spec" }, before, make("mark", {}, wrong || " "), after)];
};

// The chip that a caret points into, marked; returns the button that takes it away.
const faulty = (found) => {
  if (!found || found.spec.trimEnd() !== join(parts)) return null;
  let end = -3;
  const at = parts.findIndex((part) => found.column <= (end += join([part]).length + 3));
  const chip = chips.querySelectorAll(".chip")[at];
  chip?.classList.add("faulty");
  return chip?.querySelector("button") ?? null;
};

for (const name of SLIDERS) {
  slide(name).addEventListener("input", (event) => {
    field(name).value = event.target.value;
  });
  field(name).addEventListener("input", (event) => {
    slide(name).value = event.target.value || event.target.placeholder;
  });
}
byId("form").addEventListener("input", (event) => {
  if (event.target === add || event.target.closest("#chips")) return;
  if (event.target.name === "mode") {
    waiting[shown] = prompt.value;
    shown = kind();
    prompt.value = waiting[shown] || (shown === "fill" ? "The [MASK:3] was [MASK:8]." : "");
  }
  if (event.target.closest("[data-param]")?.querySelector(".error")) clear();
  refresh();
});
field("model").addEventListener("input", () => refresh());
byId("reward-add-button").addEventListener("click", settle);
add.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  settle();
});
byId("reseed").addEventListener("click", () => {
  field("seed").value = String(Math.floor(Math.random() * 10000));
  refresh();
});
