#!/usr/bin/env bash
# Each target for so many seconds (default 25) on the good and the bad files of the tests and what it finds from there, with
# libFuzzer on a stable toolchain and a C++ compiler: `run.sh 60 gguf tokenizer`. No address sanitizer: that needs a nightly one.
# Whatever it finds stays in target/fuzz-bytes, failures in the folder `found`. Exit 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-25}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(config index safetensors pickle gguf tokenizer)
out=$(cd ../../.. && pwd)/target/fuzz-bytes
host=$(rustc -vV | sed -n 's/^host: //p')
coverage="level=4 inline-8bit-counters pc-table trace-compares"
flags="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1"
for part in $coverage; do flags+=" -Cllvm-args=-sanitizer-coverage-$part"; done
# With a target named, build scripts and macros are compiled without all this.
RUSTFLAGS=$flags CARGO_TARGET_DIR=$out cargo build --quiet --release --target "$host" --bins

tests=../tests
status=0
for target in "${targets[@]}"; do
  corpus=$out/corpus/$target old=$out/old/$target
  mkdir -p "$corpus" "$old" "$out/found"
  case $target in
    config) files=("$tests"/golden/*/config.json) ;;
    safetensors) files=("$tests"/golden/*/model.safetensors) ;;
    pickle) files=("$tests"/fixtures/*.bin) ;;
    gguf) files=("$tests"/fixtures/*.gguf) ;;
    tokenizer) files=("$tests"/golden/*/tokenizer.json) ;;
    *) files=() ;;
  esac
  for file in "${files[@]}" "$tests/fixtures/failures/$target"/*; do
    [ ! -f "$file" ] || cp "$file" "$old/$(echo "${file#"$tests"/}" | tr / -)"
  done
  log=$out/$target.log
  "$out/$host/release/$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=10 -artifact_prefix="$out/found/$target-" \
    "$corpus" "$old" >"$log" 2>&1 || status=1
  printf '%-12s %s old files; %s\n' "$target" "$(ls "$old" | wc -l)" "$(grep -E '^Done|panicked|ERROR|SUMMARY' "$log" | tail -1)"
done
exit "$status"
