"""Lays out the pages of the site: every Markdown file of the repository with the pictures, where they stand.

Links to files that are no pages (sources, configs) and to folders go to the repository when REPOSITORY names its address,
and become plain text otherwise, so that the site has no dead link.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("docs", "papers", "bench", "training", "crates", "web", "assets", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "THIRD-PARTY.md")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def tracked():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *PAGES], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        return [Path(line) for line in listed.stdout.splitlines()]
    return [p.relative_to(ROOT) for top in PAGES for p in ([ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("*"))]


def rewrite(text, page, pages):
    repository = os.environ.get("REPOSITORY", "").rstrip("/")

    def link(match):
        words, path, anchor = match[1], match[2], match[3] or ""
        if re.match(r"[a-z]+:", path):
            return match[0]
        goal = os.path.normpath(page.parent / path)
        for candidate in (goal, os.path.join(goal, "README.md")):
            if Path(candidate) in pages:
                return f"[{words}]({os.path.relpath(candidate, page.parent)}{anchor})"
        if not (ROOT / goal).exists():
            sys.exit(f"{page}: links to {path}, which is not in the repository")
        return f"[{words}]({repository}/blob/main/{goal})" if repository else words

    return LINK.sub(link, text)


def main(out):
    # Cards are parts of the cards in assets, whose links they have.
    files = [path for path in tracked() if (ROOT / path).exists() and path.parts[:2] != ("training", "cards")]
    pages = {path for path in files if path.suffix in (".md", ".svg", ".png", ".csv")}
    for path in sorted(pages):
        goal = out / path
        goal.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            goal.write_text(rewrite((ROOT / path).read_text(encoding="utf-8"), path, pages), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / path, goal)
    (out / "index.md").write_text('<meta http-equiv="refresh" content="0; url=docs/index.html">\n', encoding="utf-8")


main(Path(sys.argv[1]))
