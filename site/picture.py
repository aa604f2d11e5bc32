#!/usr/bin/env python3
"""Draws what the terminal shows, by running the program: docs/terminal.svg, the picture of README.md.

    site/picture.py [TREASURE]      the program, else TREASURE, else `treasure` on the path; a few seconds

Text stays text; colours follow the reader's light or dark mode. Run it again whenever the program's output changes.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ["generate", "One day, the old dog", "--reward", "sentiment=negative", "--beside"]
COLUMNS, WIDE, HIGH, LEFT, TOP = 88, 8.45, 21, 24, 62
STYLE = """
.paper { fill: #ffffff; stroke: #d0d7de }
.bar { fill: #f6f8fa }
.dot { fill: #d0d7de }
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: #1f2328 }
.command { font-weight: 600 }
.faint { fill: #59636e }
.name { fill: #0a6b5e; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; stroke: #3d444d }
  .bar { fill: #151b23 }
  .dot { fill: #3d444d }
  text { fill: #e6edf3 }
  .faint { fill: #9198a1 }
  .name { fill: #5fd7c4 }
}
""".strip()


def lines_of(program):
    """(kind, text) of every line shown: what was typed, the plan, then names, texts and costs."""
    done = subprocess.run([program, *COMMAND], capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1", "COLUMNS": str(COLUMNS)})
    if done.returncode:
        sys.exit(done.stderr)
    typed = " ".join(f'"{word}"' if " " in word else shlex.quote(word) for word in COMMAND)
    yield "command", f"$ treasure {typed}"
    for line in done.stderr.splitlines():
        if line.startswith("plan: "):
            yield "faint", line
    yield "", ""
    before = ""
    for line in done.stdout.rstrip("\n").splitlines():
        if re.match(r"  (reward|model calls) ", line):
            kind = "faint"
        elif line and (before == "" and re.fullmatch(r"unguided|best of \d+|ours", line)):
            kind = "name"
        else:
            kind = ""
        yield kind, line
        before = line


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TREASURE") or shutil.which("treasure")
    if not program:
        sys.exit("picture: treasure: not on the path; hint: site/picture.py target/release/treasure")
    shown = []
    for kind, line in lines_of(program):
        indent = re.match(r" *", line)[0]
        wrapped = textwrap.wrap(line, COLUMNS, subsequent_indent=indent + ("  " if kind in ("command", "faint") and not indent else ""),
                                break_on_hyphens=False, drop_whitespace=True, replace_whitespace=False)
        shown += [(kind, part) for part in wrapped or [""]]
    width, height = round(2 * LEFT + COLUMNS * WIDE), TOP + len(shown) * HIGH + 14
    told = " ".join(line for kind, line in shown if kind in ("", "name") and line)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="title told">',
        f'<title id="title">{escape(shown[0][1])}</title>',
        f'<desc id="told">{escape(told)}</desc>',
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>',
        f'<path class="bar" d="M1 33V10.5A9.5 9.5 0 0 1 10.5 1H{width - 10.5}A9.5 9.5 0 0 1 {width - 1} 10.5V33Z"/>',
        *(f'<circle class="dot" cx="{20 + 18 * i}" cy="17" r="5.5"/>' for i in range(3)),
    ]
    for i, (kind, line) in enumerate(shown):
        if line:
            of = f' class="{kind}"' if kind else ""
            parts.append(f'<text{of} x="{LEFT}" y="{TOP + i * HIGH}" xml:space="preserve">{escape(line)}</text>')
    goal = ROOT / "docs/terminal.svg"
    goal.write_text("\n".join(parts) + "\n</svg>\n", encoding="utf-8")
    print(f"{goal.relative_to(ROOT)}: {len(shown)} lines, {goal.stat().st_size:,} bytes")


main()
