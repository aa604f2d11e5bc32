"""What a notebook shows: a text with its reward and cost, and the tree behind it, as self-contained HTML.

Interactive without a script, so that it also works where notebooks are only looked at: details fold, a node under the
pointer or reached by the Tab key says what it is and what text it stood for, and a click keeps that in sight.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any, Dict, List, Optional

#: Beyond this many nodes only those that were kept are drawn.
MOST_NODES = 1500
#: Between columns, between rows, and above them, for the words.
_STEP, _ROW, _TOP = 14, 11, 32
_STYLE = (
    "<style>.treasure g{cursor:pointer;outline:none}.treasure text{display:none;font:12px sans-serif;fill:currentColor}"
    # What is clicked stays in sight until something else is pointed at.
    ".treasure g:hover text,.treasure:not(:hover) g:focus text,.treasure:not(:has(g:hover)) g:focus text{display:inline}"
    ".treasure g:hover circle,.treasure g:focus circle{stroke:currentColor;stroke-width:2}</style>"
)


def sample(one: Any) -> str:
    """A text, its numbers, its tree."""
    parts = " · ".join(f"{escape(name)} {value:.4g}" for name, value in one.rewards.items()) if len(one.rewards) > 1 else ""
    facts = [f"reward <b>{one.reward:.4g}</b>", parts, escape(str(one.cost)), f"{escape(one.method)}, seed {one.seed}"]
    if one.stopped:
        facts.append(f"stopped: {escape(one.stopped)}")
    drawn = _tree(one._tree) if one._tree else ""
    return (
        '<div style="max-width:60em"><p style="white-space:pre-wrap;margin:0 0 .3em">'
        f'<span style="opacity:.6">{escape(one.prompt)}</span>{escape(one.continuation)}</p>'
        f'<p style="font-size:85%;opacity:.75;margin:0">{" · ".join(fact for fact in facts if fact)}</p>{drawn}</div>'
    )


def samples(several: Any) -> str:
    """A table of texts."""
    rows = "".join(
        f'<tr><td style="text-align:left;white-space:pre-wrap"><span style="opacity:.6">{escape(one.prompt)}</span>'
        f"{escape(one.continuation)}</td><td>{one.reward:.4g}</td><td>{escape(one.method)}</td>"
        f"<td>{one.cost.nfe}</td><td>{one.cost.reward_calls}</td></tr>"
        for one in several
    )
    head = '<tr><th style="text-align:left">text</th><th>reward</th><th>method</th><th>model calls</th><th>reward calls</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _tree(text: str) -> str:
    tree = json.loads(text)
    nodes: List[Dict[str, Any]] = tree["nodes"]
    texts: Dict[str, Optional[str]] = tree["texts"]
    if not nodes:
        return ""
    total = len(nodes)
    if total > MOST_NODES:
        nodes = [node for node in nodes if node["kept"]]
    depth: Dict[Optional[int], int] = {}
    place: Dict[Optional[int], tuple] = {}
    columns: Dict[int, int] = {}
    for node in nodes:
        parent = node.get("parent")
        column = depth.get(parent, -1) + 1
        depth[node["id"]] = column
        row = columns.get(column, 0)
        columns[column] = row + 1
        place[node["id"]] = (10 + _STEP * column, 10 + _TOP + _ROW * row)
    parents = {node["id"]: node for node in nodes}
    chosen = _line_of_best(nodes)
    lines, dots = [], []
    for node in nodes:
        x, y = place[node["id"]]
        parent = place.get(node.get("parent"))
        best = node["id"] in chosen
        if parent:
            colour = "#d4820a" if best else "#999" if node["kept"] else "#ddd"
            lines.append(f'<path d="M{parent[0]} {parent[1]}L{x} {y}" stroke="{colour}" stroke-width="{2 if best else 1}"/>')
        colour = "#d4820a" if best else "#4a7ab5" if node["kept"] else "#ccc"
        said = escape(_words(node, texts))
        text = escape(_text(node, parents, texts)) if node["kept"] else ""
        dots.append(
            f'<g tabindex="0" aria-label="{said}"><circle cx="{x}" cy="{y}" r="{4 if node["kept"] else 2.5}" fill="{colour}"/>'
            f'<text x="6" y="14">{said}</text><text x="6" y="28" opacity=".7">{text}</text></g>'
        )
    width = max(20 + _STEP * max(columns), 640)
    height = 20 + _TOP + _ROW * max(columns.values())
    return (
        f'<details><summary style="font-size:85%;cursor:pointer">tree: {total} nodes, {max(columns)} steps</summary>'
        f'<div style="overflow:auto;max-height:24em">{_STYLE}'
        f'<svg class="treasure" width="{width}" height="{height}" fill="none" role="group" aria-label="search tree">'
        f'{"".join(lines)}{"".join(dots)}</svg></div></details>'
    )


def _text(node: Dict[str, Any], parents: Dict[int, Dict[str, Any]], texts: Dict[str, Optional[str]]) -> str:
    """What a node had revealed, in the order of positions, with dots for what it had not."""
    slots: Dict[int, int] = {}
    line = [node]
    while line[-1].get("parent") in parents:
        line.append(parents[line[-1]["parent"]])
    for one in reversed(line):
        for position in one.get("remasked", ()):
            slots.pop(position, None)
        if one.get("token") is not None:
            slots[one["position"]] = one["token"]
        slots.update(dict(one.get("also", ())))
    words, before = "", None
    for position in sorted(slots):
        words += ("…" if before is not None and position > before + 1 else "") + (texts.get(str(slots[position])) or "")
        before = position
    return words


def _line_of_best(nodes: List[Dict[str, Any]]) -> set:
    """The best complete node and those it came from."""
    parents = {node["id"]: node.get("parent") for node in nodes}
    ends = [node for node in nodes if node["kept"] and node.get("value") is not None]
    if not ends:
        return set()
    last = min(node["masks_left"] for node in ends)
    best = max((node for node in ends if node["masks_left"] == last), key=lambda node: node["value"])
    line, at = set(), best["id"]
    while at is not None and at not in line:
        line.add(at)
        at = parents.get(at)
    return line


def _words(node: Dict[str, Any], texts: Dict[str, Optional[str]]) -> str:
    words = []
    if node.get("token") is not None:
        words.append(f"{texts.get(str(node['token']))!r} at {node['position']}")
    words.append(f"{node['masks_left']} masks left")
    if node.get("value") is not None:
        words.append(f"value {node['value']:.4g}")
    if node.get("reward") is not None:
        words.append(f"reward {node['reward']:.4g}")
    if node.get("reason"):
        words.append(str(node["reason"]))
    return ", ".join(words)
