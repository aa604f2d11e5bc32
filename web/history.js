// Finished runs of this browser, newest first, in localStorage; where that is not to be had, they last as long as the page.

import { byId, make } from "./dom.js";
import * as keep from "./keep.js";
import { total } from "./reading.js";

const NAME = "treasure.history", MOST = 40;
let records = [];
let note = "";

const load = () => {
  let found;
  try {
    found = JSON.parse(keep.get("localStorage", NAME) ?? "[]");
  } catch {
    found = [];
  }
  // Only what this page can show again; an older or a foreign format is left out.
  records = Array.isArray(found) ? found.filter((each) => each?.settings && typeof each.text === "string" && each.answer?.cost) : [];
};

const store = () => {
  note = keep.put("localStorage", NAME, JSON.stringify(records)) ? "" : "This browser has no room for it: the list is gone with the page.";
};

export const add = (record, act) => {
  records = [record, ...records].slice(0, MOST);
  store();
  list(act);
};

export const begin = (act) => {
  load();
  list(act);
};

const drop = (record, act) => {
  records = records.filter((each) => each !== record);
  store();
  list(act);
};

const width = ({ settings, answer }, name) => settings[name] ?? answer.plan?.[name] ?? "–";

const when = (time) => new Date(time).toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" });

// `act` has what can be done with a record: open and pin.
const list = (act) => {
  byId("history").replaceChildren(...records.map((record) => make("li", {},
    make("button", { type: "button", class: "open", "data-testid": "history-item", onclick: () => act.open(record) },
      make("span", { class: "score" }, total(record.answer).shown), " ", make("span", { class: "start" }, record.text),
      make("small", {}, `${record.settings.reward || "no reward"} · ${width(record, "beam_width")} × ${width(record, "tree_width")} · seed ${record.settings.seed} · ${when(record.when)}`)),
    make("button", { type: "button", "aria-label": "Pin to compare", title: "Pin to compare", onclick: () => act.pin(record) }, "Pin"),
    make("button", { type: "button", "aria-label": "Remove from history", title: "Remove", onclick: () => drop(record, act) }, "✕"))));
  const clear = make("button", { type: "button", onclick: () => { records = []; store(); list(act); } }, "Clear history");
  byId("history-note").replaceChildren(...(note ? [note] : records.length ? [clear] : ["Nothing yet."]));
};
