// What a stream has told so far: frames of the text, nodes of the tree, the answer.
// Guarantee: nothing is invented; what the server left out stays null.

import { given, written } from "./request.js";
import { Refusal } from "./stream.js";

export const MASK = "░";

// A text as pieces, the prompt apart: null for each mask. Who wrote the rest is known, how sure of it is not.
const textPieces = (prompt, text) => [
  ...(prompt ? [{ text: prompt }] : []),
  ...text.split(MASK).flatMap((part, at) => [...(at ? [null] : []), ...(part ? [{ text: part, written: true }] : [])]),
];

const textOf = (tokens) => tokens.map((token) => token?.text ?? (token ? "" : MASK)).join("");

export class Run {
  constructor(settings, body) {
    this.settings = settings;
    this.body = body;
    this.prompt = given(settings);
    this.began = performance.now();
    this.frames = [];
    this.nodes = new Map();
    this.columns = []; // nodes by step
    this.events = [];
    this.answer = null;
  }

  // Takes a chunk in; returns whether there is a new frame.
  take(chunk) {
    for (const event of chunk.treasure?.events ?? []) this.#event(event);
    const choice = chunk.choices?.[0];
    const meta = chunk.diffusion_meta;
    const text = choice ? written(choice) : null;
    if (choice?.treasure) {
      this.answer = { text: this.prompt + (text ?? ""), finish: choice.finish_reason ?? null, ...choice.treasure };
    }
    if (!meta?.diffusion_content || text === null) return false;
    this.frames.push({
      step: meta.step, steps: meta.steps, masks_left: meta.masks_left, nfe: meta.nfe, reward_calls: meta.reward_calls,
      value: meta.value ?? null, reward: meta.reward ?? null,
      tokens: this.#tokens(chunk.treasure?.tokens, text), node: chunk.treasure?.node ?? null,
    });
    return true;
  }

  // The tokens of a finished text are shown only if they spell it; its masks are marked in any case.
  #tokens(tokens, text) {
    if (tokens && this.settings.mode === "chat") tokens = this.#said(tokens);
    const spelt = tokens && (tokens.includes(null) || textOf(tokens) === this.prompt + text);
    return spelt ? tokens : textPieces(this.prompt, text);
  }

  // What was said stands for the prompt that the template made of it; every token keeps its place.
  #said(tokens) {
    const answer = tokens.findIndex((token) => !token || token.p !== undefined || token.written);
    return tokens.map((token, at) => (at < answer ? { text: at ? "" : this.prompt } : token));
  }

  #event(event) {
    this.events.push(event);
    if (event.event !== "node") return;
    const parent = this.nodes.get(event.parent) ?? null;
    const node = { ...event, parent, children: [], column: (event.step ?? -1) + 1 };
    this.nodes.set(event.id, node);
    parent?.children.push(node);
    (this.columns[node.column] ??= []).push(node);
  }

  finish() {
    if (!this.answer) throw new Refusal({ message: "the stream ended without choices[0].treasure", hint: "Is this a treasure server?" });
    this.seconds = (performance.now() - this.began) / 1000;
  }

  get last() {
    return this.frames.at(-1) ?? null;
  }

  path(node) {
    const found = [];
    for (let at = node; at; at = at.parent) found.push(at);
    return found.reverse();
  }

  // The text of a node: the first frame's pieces with what its line revealed.
  tokensOf(node) {
    const start = this.frames[0]?.tokens ?? [];
    const tokens = start.slice();
    for (const each of this.path(node)) {
      for (const at of each.remasked ?? []) tokens[at] = start[at];
      for (const [at, token] of reveals(each)) tokens[at] = token;
    }
    return tokens;
  }

  // The node of a line that revealed a position.
  revealer(node, position) {
    for (let at = node; at; at = at.parent) if (reveals(at).some(([place]) => place === position)) return at;
    return null;
  }
}

// [position, {text, p}] for each token that a node revealed.
export const reveals = (node) => {
  if (node.position === null || node.position === undefined) return [];
  const first = [node.position, { text: node.text ?? `#${node.token}`, p: node.p ?? null }];
  return [first, ...(node.also ?? []).map(([at, token, text]) => [at, { text: text ?? `#${token}`, p: null }])];
};

const REASONS = {
  beaten: "others had better values",
  duplicate: "an equal text was kept instead",
  resampled: "resampling drew no copy of it",
  screened: "a cheaper judge ranked it too low",
  bounded: "even the best reward could not have saved it",
  stopped: "the search was stopped first",
};

export const fate = (node) => (node.kept ? "kept" : `pruned: ${REASONS[node.reason] ?? node.reason ?? "no reason given"}`);
