// The playground: asks the server what it has, runs searches, and hands each part of the page its share.

import { byId, draw, make, say } from "./dom.js";
import * as form from "./form.js";
import * as past from "./history.js";
import * as keep from "./keep.js";
import { count, learn, number, spent } from "./reading.js";
import { FIRST, body, fragment, fromFragment, given, learnPlan, pieces, route, taken } from "./request.js";
import * as results from "./results.js";
import { Run } from "./run.js";
import { Refusal, frames, json } from "./stream.js";
import * as take from "./take.js";
import * as text from "./text.js";
import "./theme.js";
import * as tree from "./tree.js";

let base = FIRST;
let traced = false; // whether the server can send the tree
let run = null; // the search on the screen
let record = null; // the finished result on the screen
let pinned = null;
let running = null; // AbortController of the search under way
let frame = 0;
const REPLACED = "replaced"; // why a search ends when another run takes its place

// A key lives as long as the tab and is never part of a link, a history or an export.
const key = () => keep.get("sessionStorage", "treasure.key") ?? "";

const preview = (settings) => {
  if (run || record) return;
  const length = taken(settings, "max_tokens");
  const masks = Number.isSafeInteger(length) ? Math.min(Math.max(length, 0), 400) : 0;
  text.show(settings.mode === "fill" ? pieces(settings.template) : [{ text: given(settings) }, ...Array(masks).fill(null)]);
  byId("masks-left").textContent = count(document.querySelectorAll("#text .mask").length);
};

const spark = (values) => {
  const known = values.filter(Number.isFinite);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const at = (value, index) => `${((index / Math.max(values.length - 1, 1)) * 116 + 2).toFixed(1)},${(25 - ((value - low) / (high - low || 1)) * 22).toFixed(1)}`;
  const points = values.map((value, index) => (Number.isFinite(value) ? at(value, index) : null)).filter(Boolean);
  byId("spark").replaceChildren(...(points.length > 1 ? [draw("polyline", { points: points.join(" ") })] : []));
};

// Shows a frame of the run: the text, the counts and how far the tree has grown by then.
const look = (at) => {
  frame = at;
  const { step, steps, masks_left, nfe, reward_calls, value, reward, tokens, node } = run.frames[at];
  text.show(tokens, run, run.nodes.get(node));
  byId("step").textContent = `step ${count(step)} of ${count(steps)}`;
  byId("masks-left").textContent = count(masks_left);
  const last = run.answer && at === run.frames.length - 1;
  byId("cost").textContent = spent(last ? run.answer.cost : { nfe, reward_calls, seconds: run.answer ? NaN : (performance.now() - run.began) / 1000 });
  notes(last ? run.answer : null, run.events.filter(({ event }) => event === "note"));
  byId("progress").value = steps ? step / steps : 1;
  if (!last) {
    byId("scores").replaceChildren(...[["value of this step", value], ["best reward so far", reward]].map(([name, x], index) =>
      make("div", {}, make("dt", {}, name), make("dd", { "data-testid": index ? "reward-value" : null }, number(x)))));
  } else byId("scores").replaceChildren(...results.scores(run.answer));
  spark(run.frames.slice(0, at + 1).map((each) => each.value));
  Object.assign(byId("scrub"), { max: run.frames.length - 1, value: at });
  byId("scrub-out").textContent = `step ${count(step)} of ${count(steps)}`;
  byId("scrub").setAttribute("aria-valuetext", `step ${step} of ${steps}`);
  tree.upTo(at === run.frames.length - 1 ? Infinity : step);
};

const ENDS = { length: "cut at its length" };

// What the server wants said: caps, fallbacks, why it ended.
const notes = (answer, told) => {
  const found = [...told.map(({ message }) => message), ...(answer?.stopped ? [`stopped early: ${answer.stopped}`] : answer && ENDS[answer.finish] ? [ENDS[answer.finish]] : [])];
  byId("notes").textContent = found.join(" · ");
  byId("notes").hidden = !found.length;
};

const busy = (on) => {
  byId("write").disabled = on;
  byId("stop").disabled = !on;
};

const fail = (error) => {
  text.state("error");
  const asks = error.status === 401 && make("form", {
    class: "key",
    onsubmit: (event) => {
      event.preventDefault();
      keep.put("sessionStorage", "treasure.key", event.target.elements[0].value);
      form.clear();
      if (byId("set-model").options.length) search();
      else begin();
    },
  }, make("input", { type: "password", autocomplete: "off", "aria-label": "API key" }), make("button", {}, "Use this key"));
  form.refuse(error, ...(asks ? [asks] : []));
};

const search = async () => {
  if (running) return;
  form.settle();
  form.clear();
  const settings = form.read();
  const [fault] = form.faults(settings);
  if (fault) return fail(fault);
  let asked;
  try {
    asked = body(settings);
  } catch (error) {
    return fail({ param: "treasure", message: `other options: ${error.message}`, hint: 'A JSON object, such as {"order": "confidence"}.' });
  }
  const own = new Run(settings, asked);
  const control = new AbortController();
  running = control;
  busy(true);
  text.state("running");
  say("Writing.");
  if (byId("text").getBoundingClientRect().top > innerHeight * 0.8) byId("text").scrollIntoView({ block: "center" });
  let following = 0, planned = false;
  // What is on the screen stays there until there is something new.
  const enter = () => {
    [run, record, frame] = [own, null, 0];
    byId("pin").disabled = true;
    results.compare(pinned, null, unpin);
    results.waiting();
    tree.begin(own);
  };
  const paint = () => {
    planned = false;
    if (run !== own || !own.frames.length) return;
    tree.grow();
    // Who has gone back in the steps stays there.
    if (frame >= following || following === 0) look(own.frames.length - 1);
    else byId("scrub").max = String(own.frames.length - 1);
    following = own.frames.length - 1;
  };
  try {
    const watched = traced ? { ...asked, treasure: { ...asked.treasure, trace: true } } : asked;
    for await (const chunk of frames(route(settings), { body: watched, signal: control.signal, key: key() })) {
      const told = own.take(chunk);
      if (told && run !== own) enter();
      if (told && !planned) {
        planned = true;
        // A hidden page paints no frames, yet the search goes on.
        if (document.hidden) setTimeout(paint);
        else requestAnimationFrame(paint);
      }
    }
    own.finish();
    paint();
    done(own);
  } catch (error) {
    paint();
    if (control.signal.reason === REPLACED) return;
    if (control.signal.aborted) {
      text.state("idle");
      say("Stopped.");
      byId("general").append(make("p", { class: "notice passing" }, "Stopped: what you see is unfinished."));
    } else if (error instanceof Refusal) fail(error);
    else {
      fail(new Refusal({ message: `the page could not read the answer: ${error.message}` }));
      throw error;
    }
  } finally {
    running = null;
    busy(false);
  }
};

const done = (own) => {
  look(own.frames.length - 1);
  tree.fit();
  if (!own.columns.length) tree.begin(own, "This server sent no tree.");
  text.state("done");
  const { text: written, finish, plan, ...rest } = own.answer;
  record = { settings: own.settings, text: written, tokens: own.last?.tokens ?? null, answer: { ...rest, finish, plan }, when: Date.now() };
  history.replaceState(null, "", fragment(own.settings));
  past.add(record, act);
  settle();
  say(`Done. ${written}. Reward ${byId("reward-value")?.textContent ?? ""}.`);
};

// What follows once a result stands.
const settle = () => {
  byId("pin").disabled = record === pinned;
  results.compare(pinned, record, unpin);
  const shown = record;
  results.show(record, { ask: byId("beside-on").checked && run !== null, key, alive: () => record === shown });
};

const pin = (which) => {
  pinned = which;
  byId("pin").disabled = record === pinned || !record;
  results.compare(pinned, record, unpin);
  byId("compare").scrollIntoView({ block: "nearest" });
  say("Pinned. Change something and write again.");
};

const unpin = () => {
  pinned = null;
  byId("pin").disabled = !record;
  results.compare(null);
  byId("pin").focus();
};

const act = {
  pin,
  open: (which) => {
    running?.abort(REPLACED);
    [run, record] = [null, which];
    form.write(which.settings);
    history.replaceState(null, "", fragment(which.settings));
    text.show(which.tokens ?? [{ text: which.text }]);
    text.state("done");
    byId("step").textContent = "from history";
    byId("masks-left").textContent = "0";
    byId("cost").textContent = spent(which.answer.cost);
    notes(which.answer, []);
    byId("scores").replaceChildren(...results.scores(which.answer));
    byId("progress").value = 1;
    spark([]);
    tree.begin(null, "Trees are not kept. Write again: the same seed grows the same tree.");
    settle();
    byId("text").focus();
  },
};

// The defaults follow the reward: asked for once it stands still for a moment. A reward that is wrong keeps those before it;
// Write tells what is wrong.
const plans = new Map();
let wanted = null, pause = 0;
const follow = (reward) => {
  if (reward === wanted) return;
  wanted = reward;
  clearTimeout(pause);
  byId("form").dataset.plan = "asked";
  const ask = async () => {
    let schema = plans.get(reward) ?? null;
    try {
      schema ??= await json(`v1/schema${reward ? `?reward=${encodeURIComponent(reward)}` : ""}`, { key: key() });
      plans.set(reward, schema);
    } catch {
      // Write tells it.
    }
    if (reward !== wanted) return;
    if (schema) learnPlan(schema);
    form.planned();
    byId("form").dataset.plan = "known";
  };
  if (plans.has(reward)) ask();
  else pause = setTimeout(ask, 150);
};

const fromLink = () => {
  const settings = fromFragment(location.hash, base);
  if (!settings) return false;
  form.write(settings);
  return true;
};

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("pin").addEventListener("click", () => pin(record));
byId("help-open").addEventListener("click", () => byId("help").showModal());
byId("scrub").addEventListener("input", (event) => run?.frames.length && look(Number(event.target.value)));
for (const [id, by] of [["back", -1], ["forth", 1]]) {
  byId(id).addEventListener("click", () => run?.frames[frame + by] && look(frame + by));
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    search();
  } else if (event.key === "Escape" && running && !byId("help").open) running.abort();
  else if (event.key === "?" && !event.target.closest("input, textarea, select") && !byId("help").open) byId("help").showModal();
});
addEventListener("hashchange", () => {
  if (!fromLink()) return;
  running?.abort(REPLACED);
  [run, record] = [null, null];
  text.state("idle");
  preview(form.read());
});

const begin = async () => {
  try {
    const [models, rewards, schema] = await Promise.all(["v1/models", "v1/rewards", "v1/schema"].map((path) => json(path, { key: key() })));
    learn(rewards.data);
    learnPlan(schema);
    base = { ...FIRST, model: models.data[0]?.id ?? "" };
    traced = "trace" in (schema.properties ?? {});
    form.offer(models.data, rewards.data, schema);
    wanted = null;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    fail(error);
    return;
  }
  if (!fromLink()) {
    form.write(base);
    form.proposing();
  } else byId("general").append(make("p", { class: "notice passing" }, "From a link. Press Write to run it again."));
  text.state("idle");
  past.begin(act);
};

form.onChange(preview);
form.onReward(follow);
results.waiting();
tree.begin(null, "The tree grows here.");
take.begin(() => ({ settings: form.read(), record, run: record && run, keyed: key() !== "" }),
  (error) => form.refuse({ param: "treasure", message: `other options: ${error.message}` }));
begin();
