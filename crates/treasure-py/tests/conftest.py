"""What the tests share: a loaded model, and the command line to compare with (TREASURE_CLI)."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import treasure

# A shell's background jobs start with Ctrl-C ignored; these tests send it to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(os.environ.get("TREASURE_ROOT") or Path(__file__).resolve().parents[3])


@pytest.fixture(scope="session")
def t():
    return treasure.load("pocket")


@pytest.fixture(scope="session")
def cli():
    binary = os.environ.get("TREASURE_CLI")
    if not binary:
        pytest.skip("TREASURE_CLI names no command line to compare with")

    def run(*arguments):
        done = subprocess.run([binary, *arguments, "--json", "--quiet"], capture_output=True, text=True, timeout=300)
        assert done.returncode in (0, 1), done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def timeless(row):
    """A row without what a clock says."""
    row = json.loads(json.dumps(row))
    row["cost"].pop("seconds", None)
    return row
