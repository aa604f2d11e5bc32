#!/bin/sh
# Builds our side, makes a virtual environment with PyTorch and starts a script of this folder: run.py, or with
# SCRIPT=tradeoffs.py the trade-offs. Arguments go to the script.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${RACE_VENV:-"$root/target/search-venv"}
cd "$root"
cargo build --release --workspace --locked
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet -r "$here/requirements.txt"
fi
target=${CARGO_TARGET_DIR:-"$root/target"}
exec "$venv/bin/python" "$here/${SCRIPT:-run.py}" "$target/release/treasure" "$@"
