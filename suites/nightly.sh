#!/bin/bash
# What is too long for ./check --long: one line for each run. All of them run, and the exit code says whether all passed.
#
#   suites/nightly.sh

cd "$(dirname "$(readlink -f "$0")")/.." || exit 2
failed=0
night() { printf '\n== %s\n' "$*"; env "$@" || failed=1; }

night cargo test -p weft-store --test all large:: -- --ignored --nocapture --test-threads 1
night WEFT_SEED="$(date +%s)" WEFT_CASES=2000 cargo test -p weft-store --test all -- disks:: full::
night WEFT_SEED="$(date +%s)" WEFT_CASES=3000 cargo test -p weft-store --test all model::
night WEFT_CASES=20000 cargo test -p weft-store --test all corruption::
night WEFT_CASES=300 cargo test -p weft-kv --test loss
night WEFT_CASES=500000 cargo test -p weft-fuzz
night scripts/fuzz.sh 600
night WEFT_SECONDS=3600 WEFT_SEED="$(date +%s)" cargo test --release -p weft-sim --test seeds crashes -- --nocapture
night WEFT_SIM_REPLAYS=100 WEFT_SEED="$(date +%s)" cargo test --release -p weft-sim --test seeds replays
night WEFT_CASES=300 cargo test -p weft --test kill power -- --include-ignored --nocapture --test-threads 1
night WEFT_KILL_ROUNDS=300 cargo test -p weft --test kill kill_nine -- --nocapture
night WEFT_CASES=5000 cargo test -p weft-meta --test all trees::
night WEFT_CASES=100 cargo test -p weft-client --test all checkpoints::
night cargo test -p weft-client --test all checkpoints:: -- --ignored --nocapture
night cargo test -p weft-meta --test all trees:: -- --ignored --nocapture
night WEFT_SEED="$(date +%s)" WEFT_CASES=5000 cargo test -p weft-client --test all collectives::
night WEFT_CASES=1000000 cargo test -p weft-layout --test requests
night WEFT_SEED="$(date +%s)" WEFT_CASES=50000 cargo test -p weft-client --test all requests::
night WEFT_SEED="$(date +%s)" WEFT_CASES=500 cargo test -p weft --test mount_property
night WEFT_SEED="$(date +%s)" WEFT_CASES=20000 cargo test -p weft --test mount_strict
night WEFT_SEED="$(date +%s)" WEFT_CASES=1000000 cargo test -p weft --test mount_mixes
night WEFT_CASES=1000 cargo test -p weft --test mount_directories -- --nocapture
[ -z "${PJDFSTEST_SRC:-}" ] || night WEFT="$PWD/target/debug/weft" suites/pjdfstest.sh
[ -z "${FSX_SRC:-}" ] || night WEFT="$PWD/target/debug/weft" SEEDS="$((RANDOM + 1)) $((RANDOM + 1))" OPERATIONS=100000 LIMIT=7200 suites/fsx.sh
[ -z "${TREE:-}" ] || night WEFT="$PWD/target/debug/weft" ROUNDS=50 suites/programs.sh
exit $failed
