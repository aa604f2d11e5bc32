#!/bin/sh
# The server under load on the pocket models: 64 clients for two minutes, 8 searches at once against one after another,
# the first frame, SIGTERM in the midst of it. For a quiet machine; needs python3.
#   bench/server/run.sh --seconds 30 --json
#
# Results: docs/performance.md, "The server".
set -eu
cd "$(dirname "$0")/../.."
cargo build --release --locked -p treasure-cli
exec python3 bench/server/load.py "$@"
