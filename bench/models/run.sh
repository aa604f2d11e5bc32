#!/bin/sh
# Builds our side, makes a virtual environment with PyTorch and starts the race, or with SCRIPT=scale.py the forecast for
# more cores. Arguments go to the script.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${RACE_VENV:-"$root/target/race-venv"}
cd "$root"
cargo build --release -p treasure-models --example race
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet -r "$here/requirements.txt"
fi
target=${CARGO_TARGET_DIR:-"$root/target"}
exec "$venv/bin/python" "$here/${SCRIPT:-race.py}" "$target/release/examples/race" "$@"
