# What the checks that need more than Rust have in common. Sourced with the project as working directory.

# need COMMAND… -- PACKAGE…: installs the packages in CI; skips or fails when a command is still missing.
need() {
  local commands=() name
  while [ "$1" != -- ]; do commands+=("$1"); shift; done
  shift
  missing() { for name in "${commands[@]}"; do command -v "$name" >/dev/null || return 0; done; return 1; }
  if missing && [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ]; then
    apt-get update -qq
    # RUNLEVEL: packages must not start daemons of their own.
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  fi
  missing || return 0
  if [ "${CI:-}" = true ]; then
    echo "failed: $name: not found, and could not be installed" >&2
    exit 1
  fi
  echo "skipped: $name: not found; hint: apt-get install $*"
  exit 0
}

# Sets TREASURE to the binary that the tests run, unless it is set. After ./check it is already built, while
# `cargo build` would compile a third of the dependencies again without the tests' features.
find_treasure() {
  if [ -z "${TREASURE:-}" ]; then
    cargo test --workspace --locked --no-run --quiet
    TREASURE="${CARGO_TARGET_DIR:-$PWD/target}/debug/treasure"
  fi
  TREASURE=$(realpath "$TREASURE")
}

# Sets work to a temporary folder that is gone at the end.
scratch() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
}

# serve NAME ARGUMENT…: starts `treasure serve` at a free port, sets NAME to its address once it is ready and adds
# its process to `servers`. Needs find_treasure and scratch, whose trap it replaces: no server outlives the check.
servers=()
serve() {
  local name=$1 said="$work/$1.address" address=""
  shift
  # Before the server: it may take a moment to begin, and its file would not be there yet.
  : >"$said"
  "$TREASURE" serve --port 0 "$@" >"$said" 2>"$work/$name.log" &
  servers+=($!)
  trap 'kill "${servers[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
  for _ in $(seq 600); do
    address=$(cat "$said")
    if [ -n "$address" ] && curl -sf "${address}ready" >/dev/null; then break; fi
    kill -0 "${servers[-1]}" 2>/dev/null || { cat "$work/$name.log" >&2; exit 1; }
    sleep 0.1
  done
  printf -v "$name" %s "$address"
}

# Ends every server by SIGTERM; each must exit with 0.
end_servers() {
  local process status
  for process in "${servers[@]}"; do
    kill "$process"
    status=0
    wait "$process" || status=$?
    [ "$status" = 0 ] || { echo "FAILED  a server ended with $status after SIGTERM" >&2; exit 1; }
  done
  servers=()
  echo "ok      every server ended with 0 after SIGTERM"
}
