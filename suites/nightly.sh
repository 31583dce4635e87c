#!/bin/bash
# What is too long for ./check: one line for each run. All of them run, and the exit code says whether all passed.
#
#   suites/nightly.sh

cd "$(dirname "$(readlink -f "$0")")/.." || exit 2
failed=0
night() { printf '\n== %s\n' "$*"; env "$@" || failed=1; }

night cargo test -p weft-store --test large -- --ignored --nocapture --test-threads 1
night WEFT_CASES=2000 cargo test -p weft-store --test disks --test full
exit $failed
