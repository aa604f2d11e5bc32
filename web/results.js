// Results beside each other: unguided text and best of N below a search, and a pinned run beside the present one.

import { byId, make } from "./dom.js";
import { count, number, reading, spent, total, unweighted } from "./reading.js";
import { PLANNED, differences, given, holes, rival, route, taken, written } from "./request.js";
import { json } from "./stream.js";

const BEST_OF = 16;

const beside = byId("beside");

// The scores of an answer as a list: the reward, its parts, the second opinions, fluency.
export const scores = (answer) => {
  const { shown, how } = total(answer);
  const parts = Object.entries(answer.rewards ?? {});
  const found = parts.length > 1 ? parts.map(([spec, value]) => [unweighted(spec), reading(spec, value).shown, reading(spec, value).how]) : [];
  found.push(["reward", shown, how, "reward-value"]);
  for (const [spec, value] of Object.entries(answer.held_out?.judges ?? {})) found.push([`second opinion: ${spec}`, reading(spec, value).shown, reading(spec, value).how]);
  if (Number.isFinite(answer.held_out?.perplexity)) found.push(["fluency", answer.held_out.perplexity.toFixed(1), "perplexity, lower is better"]);
  return found.map(([name, value, note, id]) =>
    make("div", { title: note }, make("dt", {}, name), make("dd", { "data-testid": id, id }, value, note && make("small", {}, ` ${note}`))));
};

const continuation = (record) => {
  const prompt = given(record.settings);
  return record.text.startsWith(prompt) ? [prompt, record.text.slice(prompt.length)] : ["", record.text];
};

const prose = (record, other = null) => {
  const [start, rest] = continuation(record);
  return make("p", { class: "prose" }, make("span", { class: "given" }, start), ...(other ? marked(rest, continuation(other)[1]) : [rest]));
};

// Words of a text that another lacks, marked (longest common subsequence; very long texts are left alone).
const marked = (text, other) => {
  const words = text.match(/\s*\S+/g) ?? [], others = other.match(/\s*\S+/g) ?? [];
  if (words.length * others.length > 250_000) return [text];
  const long = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1));
  for (let i = words.length - 1; i >= 0; i--) {
    for (let j = others.length - 1; j >= 0; j--) {
      long[i][j] = words[i].trim() === others[j].trim() ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
    }
  }
  const found = [];
  for (let i = 0, j = 0; i < words.length; i++) {
    while (j < others.length && words[i].trim() !== others[j].trim() && long[i][j + 1] >= long[i + 1][j]) j++;
    if (j < others.length && words[i].trim() === others[j].trim()) {
      found.push(words[i]);
      j++;
    } else found.push(words[i].match(/^\s*/)[0], make("mark", {}, words[i].trim()));
  }
  return [...found, text.match(/\s*$/)[0]];
};

const row = (name, record, own = false) =>
  make("li", { class: own ? "own" : null }, make("div", { class: "who" }, make("b", {}, name), make("span", { class: "score" }, ...worth(record.answer))),
    prose(record), make("p", { class: "hint" }, spent(record.answer.cost)));

// The reward in one line; of a sum also its parts.
const worth = (answer) => {
  const parts = Object.entries(answer.rewards ?? {});
  if (parts.length < 2) return [total(answer).shown];
  return [...parts.map(([spec, value]) => make("span", { title: reading(spec, value).how }, make("small", {}, unweighted(spec)), ` ${reading(spec, value).shown} `)),
    make("small", {}, `reward ${total(answer).shown}`)];
};

const empty = (text) => beside.replaceChildren(make("p", { class: "hint" }, text));

export const waiting = () => empty("After a search: the same start without the reward, and what the search gained.");

// Shows a finished search, then asks for the same start unguided; best of N on request. `alive` says whether it still matters.
export const show = async (record, { ask, key, alive }) => {
  const rows = make("ol", { class: "rows" }, row("This search", record, true));
  beside.replaceChildren(rows);
  const rivals = async (name, method, options) => {
    const place = make("li", { class: "busy" }, make("b", {}, name), make("span", { class: "hint" }, " writing …"));
    rows.insertBefore(place, rows.lastElementChild);
    try {
      const answer = await json(route(record.settings), { body: rival(record.settings, method, options), key: key() });
      if (!alive()) return;
      const choice = answer.choices[0];
      place.replaceWith(row(name, { settings: record.settings, text: given(record.settings) + written(choice), answer: choice.treasure }));
    } catch (error) {
      place.replaceChildren(make("b", {}, name), make("span", { class: "hint" }, ` could not be written: ${error.message}`));
    }
  };
  const masks = record.settings.mode === "fill" ? holes(record.settings.template) : settled(record).max_tokens ?? taken(record.settings, "max_tokens");
  const more = make("button", {
    type: "button",
    onclick: async () => {
      more.remove();
      await rivals(`Best of ${BEST_OF}`, "bon", { particles: BEST_OF });
    },
  }, `Also try best of ${BEST_OF} (≈ ${count(BEST_OF * masks)} model calls)`);
  beside.append(more);
  if (ask) await rivals("Unguided", "base", {});
};

// The settings of a record, with what its plan took where they say nothing.
const settled = ({ settings, answer }) => ({
  ...settings, ...Object.fromEntries(PLANNED.map((name) => [name, settings[name] ?? answer.plan?.[name === "max_tokens" ? "length" : name] ?? null])),
});

const card = (name, record, other) =>
  make("article", {}, make("h3", {}, name), record ? prose(record, other) : make("p", { class: "hint" }, "Change something and write again."),
    record && make("dl", { class: "scores" }, ...scores(record.answer).map((each) => {
      each.querySelector("dd").removeAttribute("data-testid");
      each.querySelector("dd").removeAttribute("id");
      return each;
    })),
    record && make("p", { class: "hint" }, spent(record.answer.cost)));

// A pinned record beside the present one, with what differs between them.
export const compare = (pinned, present, unpin) => {
  byId("compare").hidden = !pinned;
  if (!pinned) return;
  const other = present === pinned ? null : present;
  const changes = other ? differences(settled(pinned), settled(other)) : [];
  const gain = other ? other.answer.reward - pinned.answer.reward : NaN;
  byId("compare-body").replaceChildren(
    make("div", { class: "two" }, card("Pinned", pinned, other), card("Now", other, pinned)),
    other && (changes.length
      ? make("table", { class: "changes" }, make("caption", {}, "What differs"),
        make("thead", {}, make("tr", {}, make("td"), make("th", { scope: "col" }, "pinned"), make("th", { scope: "col" }, "now"))),
        make("tbody", {}, ...changes.map(([name, from, to]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, from), make("td", {}, to)))))
      : make("p", { class: "hint" }, "The settings are the same.")) || "",
    Number.isFinite(gain) && pinned.settings.reward === other.settings.reward ? make("p", {}, `Reward ${gain < 0 ? "" : "+"}${number(gain)} for ${signed(other.answer.cost.nfe - pinned.answer.cost.nfe)} model calls and ${signed(other.answer.cost.reward_calls - pinned.answer.cost.reward_calls)} judge calls.`) : "",
    make("button", { type: "button", onclick: unpin }, "Unpin"),
  );
};

const signed = (n) => (n < 0 ? "−" : "+") + count(Math.abs(n));
