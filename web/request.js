// What a run is asked for: settings ↔ request body ↔ link, and the nominal cost.
// Guarantee: a link gives back the settings it was made from; the page sends nothing that the link lacks.

// Left to the server's plan where nobody moved them: such a setting is null and is not sent.
export const PLANNED = ["beam_width", "tree_width", "prior", "min_p", "max_tokens", "min_length"];
const NUMBERS = ["beam_width", "tree_width", "prior", "min_p", "max_tokens", "min_length", "seed"];
const TEXTS = ["model", "prompt", "template", "reward", "matches", "judge", "extra"];

// A first visit: an example, and nothing decided.
export const FIRST = {
  model: "", prompt: "The old dog", template: "", reward: "sentiment=negative + 0.5*perplexity", matches: "", judge: "", extra: "",
  ...Object.fromEntries(PLANNED.map((name) => [name, null])), seed: 0, mode: "continue",
};

let known = null;
let plan = {};

// What the server's plan takes where a request says nothing, by its JSON Schema for the reward in question.
export const learnPlan = (schema) => {
  known = schema?.properties ?? null;
  const told = (name) => known?.[name === "max_tokens" ? "length" : name]?.default ?? null;
  plan = Object.fromEntries(PLANNED.map((name) => [name, told(name)]));
};

// A setting, or what the plan takes for it; null if neither is known.
export const taken = (settings, name) => settings[name] ?? plan[name] ?? null;

// What the shown text begins with: of a conversation, what was said.
export const given = ({ mode, prompt }) => (mode === "fill" ? "" : mode === "chat" ? `${prompt}\n\n` : prompt);

export const route = ({ mode }) => (mode === "chat" ? "v1/chat/completions" : "v1/completions");

// What a choice says, of a text or of a conversation.
export const written = (choice) => choice.text ?? choice.message?.content ?? choice.delta?.content ?? null;

// The settings as OpenAI's body for their route. Throws a SyntaxError if the extra options are no JSON object.
export const body = (settings) => {
  const fill = settings.mode === "fill";
  const own = {};
  if (fill) own.template = settings.template;
  if (settings.reward) own.reward = settings.reward;
  for (const name of ["beam_width", "tree_width", "prior", "min_p"]) {
    // A server that does not know an option does what its 0 asks for.
    if (settings[name] !== null && (settings[name] !== 0 || !known || name in known)) own[name] = settings[name];
  }
  if (!fill && settings.min_length !== null) own.min_length = settings.min_length;
  if (settings.matches) own.matches = settings.matches;
  if (settings.judge) own.judge = [settings.judge];
  const said = settings.mode === "chat" ? { messages: [{ role: "user", content: settings.prompt }] } : { prompt: fill ? "" : settings.prompt };
  const made = { model: settings.model, ...said };
  if (!fill && settings.max_tokens !== null) made.max_tokens = settings.max_tokens;
  made.seed = settings.seed;
  made.treasure = { ...own, ...extra(settings) };
  return made;
};

export const extra = (settings) => {
  if (!settings.extra.trim()) return {};
  const found = JSON.parse(settings.extra);
  if (found === null || typeof found !== "object" || Array.isArray(found)) {
    throw new SyntaxError(`expected an object, got ${settings.extra.trim().slice(0, 40)}`);
  }
  return found;
};

// The same job by another method, without the options that only the tree search has.
export const rival = (settings, method, options = {}) => {
  const made = body({ ...settings, extra: "" });
  for (const name of ["beam_width", "tree_width", "prior", "min_p"]) delete made.treasure[name];
  Object.assign(made.treasure, { method, ...options });
  return made;
};

export const fragment = (settings) => {
  const parts = new URLSearchParams({ v: "1", mode: settings.mode });
  for (const name of TEXTS) if (settings[name]) parts.set(name, settings[name]);
  for (const name of NUMBERS) if (settings[name] !== null) parts.set(name, String(settings[name]));
  return "#" + parts;
};

// The settings of a link over the given ones, or null if the fragment holds none.
export const fromFragment = (text, over) => {
  const parts = new URLSearchParams(text.replace(/^#/, ""));
  if (parts.get("v") !== "1") return null;
  const found = { ...over, mode: ["fill", "chat"].find((mode) => mode === parts.get("mode")) ?? "continue" };
  for (const name of TEXTS) found[name] = parts.get(name) ?? (name === "model" ? over.model : "");
  // What a link does not say is left to the plan.
  for (const name of PLANNED) found[name] = null;
  for (const name of NUMBERS) {
    const value = Number(parts.get(name) ?? "");
    if (parts.get(name) && Number.isFinite(value)) found[name] = value;
  }
  return found;
};

const HOLE = /\[MASK(?::(\d+))?\]/g;

export const holes = (template) => [...template.matchAll(HOLE)].reduce((sum, hole) => sum + Number(hole[1] ?? 1), 0);

// A template as the pieces of its first state: text, and null for each mask.
export const pieces = (template) => {
  const found = [];
  let end = 0;
  for (const hole of template.matchAll(HOLE)) {
    if (hole.index > end) found.push({ text: template.slice(end, hole.index) });
    // More masks than anyone can look at are not drawn before the server has had its say.
    for (let n = Math.min(Number(hole[1] ?? 1), 400); n > 0; n--) found.push(null);
    end = hole.index + hole[0].length;
  }
  if (end < template.length) found.push({ text: template.slice(end) });
  return found;
};

// Nominal calls of the tree search: 1 + (n − 1) m of the model, b + (n − 1) b m of the judge; null if unknown.
export const predict = (settings) => {
  let method, more;
  try {
    more = extra(settings);
    method = more.method ?? "treasure";
  } catch {
    return null;
  }
  const n = settings.mode === "fill" ? holes(settings.template) : more.length ?? taken(settings, "max_tokens");
  const [b, m] = ["beam_width", "tree_width"].map((name) => more[name] ?? taken(settings, name));
  if (method !== "treasure" || ![n, b, m].every((x) => Number.isInteger(x) && x > 0)) return null;
  return { nfe: 1 + (n - 1) * m, reward_calls: b + (n - 1) * b * m, fewer: (more.min_p ?? taken(settings, "min_p")) > 0 };
};

// A reward specification as weighted parts, and back. `+` divides only between spaces and outside of quotes, functions and
// parentheses (the grammar of the command line); join(split(x)) asks for the same as x.
export const split = (spec) => {
  const parts = [];
  const plus = (at) => at > 0 && /^\s\+\s$/.test(spec.slice(at - 1, at + 2));
  let start = 0, depth = 0, quote = null, scheme = false;
  for (let at = 0; at <= spec.length; at++) {
    const c = spec[at];
    if (c === undefined || (!quote && depth === 0 && plus(at))) {
      parts.push(weighed(spec.slice(start, at).trim()));
      start = at + 1;
      scheme = false;
    } else if (quote) {
      if (c === quote) quote = null;
    } else if ((c === "'" || c === '"') && /[:,#(\s]/.test(spec[at - 1] ?? " ")) {
      quote = c;
    } else if (c === "(" && !scheme) {
      depth += 1;
    } else if (c === ")" && depth > 0) {
      depth -= 1;
    } else if (c === ":" && depth === 0) {
      scheme = true; // Brackets in the text of a scheme mean nothing.
    }
  }
  return parts.filter((part) => part.spec);
};

const weighed = (text) => {
  const found = /^([-+.\d][-+.\w]*)\s*\*\s*(.*)$/s.exec(text);
  const weight = found ? Number(found[1]) : 1;
  return found && Number.isFinite(weight) ? { weight, spec: found[2] } : { weight: 1, spec: text };
};

export const join = (parts) => parts.map(({ weight, spec }) => (weight === 1 ? spec : `${weight}*${spec}`)).join(" + ");

// What stands between two settings, as [name, from, to].
// Where one of them leaves a number to the plan, `from` and `to` may say what it was.
export const differences = (from, to) =>
  ["mode", ...TEXTS, ...NUMBERS]
    .filter((name) => String(from[name] ?? "") !== String(to[name] ?? "") && !(name === (to.mode === "fill" ? "prompt" : "template") && from.mode === to.mode))
    .map((name) => [name.replace("_", " "), String(from[name] ?? "") || "–", String(to[name] ?? "") || "–"]);
