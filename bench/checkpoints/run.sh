#!/bin/sh
# Checkpoints with LLaDA-8B's shapes and random weights (bf16, GGUF Q8_0 and Q4_K_M), one after another: seconds to load,
# forward passes, texts, memory, and what more cores should give. Arguments go to run.py.
#   bench/checkpoints/run.sh --out /somewhere/with/30-GB --kinds q4_k bf16 --keep
#
# Results: docs/performance.md, "Eight billion parameters". For a quiet machine with 20 GB of memory.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${CHECKPOINT_VENV:-"$root/target/checkpoint-venv"}
cd "$root"
cargo build --release --locked -p treasure-cli --bins
cargo build --release --locked -p treasure-models --example checkpoint
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet numpy gguf
fi
exec "$venv/bin/python" "$here/run.py" "${CARGO_TARGET_DIR:-"$root/target"}/release" "$@"
