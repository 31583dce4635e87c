#!/usr/bin/env bash
# libFuzzer on every decoder, with the stable toolchain: `cargo fuzz` is not needed, but finds the same targets in fuzz/.
#
#   scripts/fuzz.sh [SECONDS]           every family of decoders for so long (default 60)
#   scripts/fuzz.sh SECONDS store ...   these families
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
shift || true
families=("$@")
((${#families[@]})) || families=(store engine namespace frames messages conversions)
cargo run --quiet --release -p weft-fuzz --example corpus -- fuzz/corpus
# What `cargo fuzz` asks of the compiler, except for what only nightly has (sanitizers).
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
coverage+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
coverage+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions --cfg fuzzing"
target=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="$coverage" cargo build --quiet --release --manifest-path fuzz/Cargo.toml --target "$target"
mkdir -p fuzz/artifacts
for family in "${families[@]}"; do
    printf '== %s\n' "$family"
    "fuzz/target/$target/release/$family" "fuzz/corpus/$family" -max_total_time="$seconds" -max_len=65536 \
        -rss_limit_mb=2048 -malloc_limit_mb=64 -timeout=10 -artifact_prefix="fuzz/artifacts/$family-" -print_final_stats=1
done
