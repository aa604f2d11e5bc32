#!/bin/sh
# Writes a random LLaDA of a billion parameters (bf16, then f32) to TMPDIR, loads it in a process of its own and
# compares the peak memory (VmHWM, Linux) with the bytes of its weights. Needs 4.1 GB of disk and of memory.
#
# Results: docs/adding-a-model.md, "Types and memory".
set -eu
cd "$(dirname "$0")/../.."
exec cargo test -p treasure-models --locked --test suite -- --ignored --nocapture --exact \
    memory::a_billion_parameters_load_within_1_15_times_their_size
