// A run to take away: as a link, as curl, as Python, as JSON. Keys are never written into any of them.

import { byId, copy, make, say } from "./dom.js";
import { body, fragment, given, route } from "./request.js";

const here = () => location.href.replace(/#.*$/, "").replace(/[^/]*$/, "");

const link = (settings) => location.href.replace(/#.*$/, "") + fragment(settings);

const shell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

const curl = (settings, keyed) =>
  `curl -s ${shell(here() + route(settings))} \\\n  -H 'Content-Type: application/json' \\\n${keyed ? `  -H "Authorization: Bearer $TREASURE_API_KEY" \\\n` : ""}  -d ${shell(JSON.stringify(body(settings), null, 2))}\n`;

// A JSON value as a Python literal.
const literal = (value, indent = "") => {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  if (Array.isArray(value)) return `[${value.map((each) => literal(each, inner)).join(", ")}]`;
  return `{\n${Object.entries(value).map(([name, each]) => `${inner}${JSON.stringify(name)}: ${literal(each, inner)},\n`).join("")}${indent}}`;
};

const python = (settings, keyed) => {
  const { treasure, ...asked } = body(settings);
  const talks = settings.mode === "chat";
  const lines = Object.entries(asked).map(([name, value]) => `    ${name}=${literal(value, "    ")},\n`);
  return `${keyed ? "import os\n\n" : ""}from openai import OpenAI

client = OpenAI(base_url=${literal(`${here()}v1`)}, api_key=${keyed ? 'os.environ["TREASURE_API_KEY"]' : '"none"'})
answer = client.${talks ? "chat." : ""}completions.create(
${lines.join("")}    extra_body={"treasure": ${literal(treasure, "    ")}},
)
choice = answer.choices[0]
print(${given(settings) && `${literal(given(settings))} + `}choice.${talks ? "message.content" : "text"})
print(choice.treasure["reward"], choice.treasure["cost"])
`;
};

// The run on the screen, or, before there is one, what would be asked for.
const whole = (settings, record, run) =>
  JSON.stringify({ request: body(record?.settings ?? settings), link: link(record?.settings ?? settings), text: record?.text ?? null, answer: record?.answer ?? null, ...(run ? { events: run.events } : {}) }, null, 2) + "\n";

const FORMS = { "as-curl": ["curl", curl], "as-python": ["Python, with the openai package", python], "as-json": ["JSON", null] };

// Wires the buttons; `now` gives { settings, record, run, keyed }.
export const begin = (now, refuse) => {
  const box = byId("take");
  byId("copy-link").addEventListener("click", async () => {
    const text = link(now().settings);
    history.replaceState(null, "", text);
    say((await copy(text)) ? "Link copied." : "The link is in the address bar.");
    byId("copy-link").textContent = "Link copied";
    setTimeout(() => (byId("copy-link").textContent = "Copy link"), 2000);
  });
  for (const [id, [name, form]] of Object.entries(FORMS)) {
    byId(id).addEventListener("click", () => {
      const open = byId(id).getAttribute("aria-expanded") === "true";
      for (const each of Object.keys(FORMS)) byId(each).setAttribute("aria-expanded", String(each === id && !open));
      box.hidden = open;
      if (open) return;
      const { settings, record, run, keyed } = now();
      let text;
      try {
        text = form ? form(settings, keyed) : whole(settings, record, null);
      } catch (error) {
        box.hidden = true;
        return refuse(error);
      }
      const done = make("button", { type: "button", onclick: async () => { done.textContent = (await copy(text)) ? "Copied" : "Select and copy by hand"; } }, "Copy");
      const save = !form && make("button", { type: "button", onclick: () => download(whole(settings, record, run)) }, run ? "Save with the tree" : "Save");
      box.replaceChildren(make("p", { class: "hint" }, form ? `The request as ${name}.` : record ? "The run on the screen as JSON." : "The request as JSON; nothing is written yet."),
        make("pre", { tabindex: "0", "aria-label": name, "data-testid": "export" }, text), make("p", { class: "buttons" }, done, save));
    });
  }
};

const download = (text) => {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  make("a", { href: url, download: "treasure-run.json" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
};
