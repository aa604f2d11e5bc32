// The browsable search trees. All text is set as text, never as markup; nothing is fetched.
"use strict";
(() => {
  const trees = JSON.parse(document.getElementById("trees").textContent);
  const choice = document.getElementById("tree-choice");
  if (!trees.length || !choice) return;
  const levels = document.getElementById("tree-levels");
  const detail = document.getElementById("tree-detail");
  const why = {
    beaten: "pruned: others had better values",
    duplicate: "pruned: an equal sequence was kept instead",
    resampled: "pruned: resampling drew no copy",
    screened: "pruned: the proxy ranked it too low",
    bounded: "pruned: no reward could have saved it",
    stopped: "pruned: the search was stopped",
  };
  const make = (parent, tag, text, name) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (name) node.className = name;
    parent.appendChild(node);
    return node;
  };
  const number = (x) => (x === null || x === undefined ? "–" : x.toFixed(3));
  let tree, byId, children, answer, buttons;

  const word = (token) => (tree.texts[token] ?? "#" + token).replace(/\n/g, "⏎");
  const revealed = (node) =>
    node.reveals.length ? node.reveals.map(([at, token]) => word(token) + " @" + at).join(", ") : "(nothing)";
  const lineage = (node) => {
    const path = [];
    for (let at = node; at; at = byId.get(at.parent)) path.push(at);
    return path;
  };
  const stateOf = (node) => {
    const slots = tree.start.slice();
    for (const each of lineage(node).reverse()) {
      for (const at of each.remasked) slots[at] = null;
      for (const [at, token] of each.reveals) slots[at] = token;
    }
    return slots;
  };
  const textOf = (node) =>
    stateOf(node).map((token) => (token === null ? "▁" : tree.texts[token] ?? "#" + token)).join("");

  const show = (node) => {
    detail.replaceChildren();
    detail.dataset.node = node.id;
    const line = new Set(lineage(node).map((each) => each.id));
    for (const [id, button] of buttons) {
      button.setAttribute("aria-pressed", String(id === node.id));
      button.classList.toggle("line", line.has(id));
    }
    const step = node.step === null ? "start" : "step " + (node.step + 1);
    make(detail, "h3", node.parent === null ? step : step + ": " + revealed(node));
    make(detail, "p", "value " + number(node.value) + " · rank " + node.rank + " · " + node.masks + " masks left · τ " +
      number(node.tau) + " · so far " + node.nfe + " NFE, " + node.calls + " reward calls · " +
      (node.kept ? "kept" + (node.slot === null ? "" : " in slot " + node.slot) : why[node.reason] ?? "pruned"));
    make(detail, "p", textOf(node), "text");
    const parent = byId.get(node.parent);
    if (parent) {
      const up = make(detail, "button", "↑ parent");
      up.type = "button";
      up.addEventListener("click", () => show(parent));
    }
    const own = (children.get(node.id) ?? []).slice().sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
    if (!own.length) {
      make(detail, "p", node.kept ? "No children: the sequence is complete or the search ended." : "It was not expanded.");
      return;
    }
    make(detail, "p", "This node branched into " + own.length + " children, " + own.filter((each) => each.kept).length + " kept:");
    const table = make(detail, "table");
    const head = make(make(table, "thead"), "tr");
    for (const name of ["token", "rank", "value", "fate"]) make(head, "th", name);
    const body = make(table, "tbody");
    for (const child of own) {
      const row = make(body, "tr", undefined, child.kept ? "kept" : "pruned");
      const button = make(make(row, "td"), "button", revealed(child));
      button.type = "button";
      button.addEventListener("click", () => show(child));
      make(row, "td", String(child.rank));
      make(row, "td", number(child.value));
      make(row, "td", child.kept ? "kept" : why[child.reason] ?? "pruned");
    }
  };

  // Lines from parents to children behind the buttons. Parents of kept nodes were kept, so both ends are there.
  const edges = () => {
    levels.querySelector("svg")?.remove();
    const name = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(name, "svg");
    svg.setAttribute("width", levels.scrollWidth);
    svg.setAttribute("height", levels.scrollHeight);
    svg.setAttribute("aria-hidden", "true");
    const from = levels.getBoundingClientRect();
    const middle = (button) => {
      const box = button.getBoundingClientRect();
      const x = box.left + box.width / 2 - from.left - levels.clientLeft + levels.scrollLeft;
      const y = box.top - from.top - levels.clientTop + levels.scrollTop;
      return { x, top: y, bottom: y + box.height };
    };
    for (const [id, button] of buttons) {
      const above = buttons.get(byId.get(id).parent);
      if (!above) continue;
      const [a, b] = [middle(above), middle(button)];
      const half = (a.bottom + b.top) / 2;
      const path = document.createElementNS(name, "path");
      path.setAttribute("d", `M${a.x} ${a.bottom}C${a.x} ${half} ${b.x} ${half} ${b.x} ${b.top}`);
      if (answer.has(id)) path.setAttribute("class", "answer");
      svg.appendChild(path);
    }
    levels.appendChild(svg);
  };
  new ResizeObserver(() => buttons && edges()).observe(levels);

  const load = (index) => {
    tree = trees[index];
    byId = new Map(tree.nodes.map((node) => [node.id, node]));
    children = new Map();
    for (const node of tree.nodes) {
      if (node.parent === null) continue;
      if (!children.has(node.parent)) children.set(node.parent, []);
      children.get(node.parent).push(node);
    }
    buttons = new Map();
    const rows = new Map();
    for (const node of tree.nodes) {
      const step = node.step === null ? -1 : node.step;
      if (!rows.has(step)) rows.set(step, []);
      rows.get(step).push(node);
    }
    const last = [...rows.keys()].reduce((a, b) => Math.max(a, b), -1);
    const same = (node) => stateOf(node).every((token, at) => token === tree.answer[at]);
    const winner = (rows.get(last) ?? []).filter((node) => node.kept).find(same);
    answer = new Set(winner ? lineage(winner).map((node) => node.id) : []);
    levels.replaceChildren();
    for (const step of [...rows.keys()].sort((a, b) => a - b)) {
      const all = rows.get(step);
      const kept = all.filter((node) => node.kept || step < 0).sort((a, b) => (a.slot ?? 0) - (b.slot ?? 0));
      const level = make(levels, "div", undefined, "level");
      make(level, "span", step < 0 ? "start" : step + 1 + ": " + kept.length + " of " + all.length);
      for (const node of kept) {
        const label = step < 0 ? "start" : node.reveals.map(([, token]) => word(token)).join(" ") || "∅";
        const button = make(level, "button", label + (node.value === null ? "" : " " + number(node.value)));
        button.type = "button";
        button.dataset.node = node.id;
        if (answer.has(node.id)) button.classList.add("answer");
        button.addEventListener("click", () => show(node));
        buttons.set(node.id, button);
      }
    }
    edges();
    if (tree.nodes.length) show(tree.nodes.find((node) => node.parent === null) ?? tree.nodes[0]);
  };

  trees.forEach((each, index) => {
    const option = make(choice, "option", each.id + " — " + each.prompt.trim() + " (reward " + number(each.final_reward) + ")");
    option.value = String(index);
  });
  choice.addEventListener("change", () => load(Number(choice.value)));
  load(0);
})();
