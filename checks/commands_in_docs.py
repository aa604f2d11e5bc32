"""Runs the shell commands that the documentation shows, page by page, and fails where one fails.

    python3 checks/commands_in_docs.py TREASURE [PAGE…]

Lines of ```sh blocks that begin with `treasure`, `printf` or `curl` are run in order in an empty folder, one folder a page. A
line that says `treasure serve` starts the server for the rest of its page; one with `--watch` needs a terminal and is left out. A block below `<!-- not run: REASON -->` is
left out and counted, so what is never tried is on record.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- not run: (?P<reason>[^>]*) -->\n)?```sh\n(?P<lines>.*?)```", re.S)
RUN = ("treasure ", "printf ", "curl ")
SECONDS = 300


def blocks(page):
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        lines = match["lines"].replace("\\\n", " ").splitlines()
        yield match["reason"], [line for line in lines if line.startswith(RUN)]


def serve(line, where, env):
    """Starts the server of a page and waits until it answers."""
    server = subprocess.Popen(["sh", "-c", "exec " + line.split("#")[0].rstrip(" &")], cwd=where, env=env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if server.poll() is not None:
            sys.exit(f"failed: {line}\n{server.stderr.read()}")
        if subprocess.run(["curl", "-sf", "http://127.0.0.1:8080/ready"], capture_output=True).returncode == 0:
            return server
        time.sleep(0.1)
    server.kill()
    sys.exit(f"failed: {line}: no answer within a minute")


def main(treasure, pages):
    ran = failed = skipped = 0
    with tempfile.TemporaryDirectory() as work:
        tools = Path(work, "bin")
        tools.mkdir()
        (tools / "treasure").symlink_to(Path(treasure).resolve())
        env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")
        for page in pages:
            where, server = Path(work, page.stem), None
            where.mkdir()
            for reason, lines in blocks(page):
                if reason:
                    skipped += len(lines)
                    continue
                for line in lines:
                    if " --watch" in line.split("#")[0]:
                        skipped += 1
                        continue
                    if line.startswith("treasure serve"):
                        server = server or serve(line, where, env)
                        continue
                    started = time.monotonic()
                    done = subprocess.run(["sh", "-c", line], cwd=where, env=env, capture_output=True, text=True, timeout=SECONDS)
                    ran += 1
                    word = "ok" if done.returncode == 0 else "FAILED"
                    print(f"{word} {time.monotonic() - started:5.1f} s  {page.name}: {line}", flush=True)
                    if done.returncode != 0:
                        failed += 1
                        print(done.stdout[-2000:] + done.stderr[-2000:])
            if server:
                server.terminate()
                server.wait(timeout=60)
    print(f"{ran - failed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    named = [Path(name) for name in sys.argv[2:]]
    main(sys.argv[1], named or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
