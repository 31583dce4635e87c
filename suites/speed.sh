#!/bin/bash
# The same fio cases on a local directory, on that directory through a pass-through FUSE file system (bindfs: what any user-space
# file system of this kind pays), and on a mounted volume; medians, and the volume's share of the other two.
#
#   WEFT=/path/to/weft suites/speed.sh [local] [bindfs] [weft]
#
# ROUNDS (3), SIZE (512m) and SECONDS_EACH (5) say how much; RESULTS is a CSV file to keep. As root caches are dropped before reads.

. "$(dirname "$(readlink -f "$0")")/lib.sh"
needs fio python3 findmnt
results=${RESULTS:-}
rounds=${ROUNDS:-3} size=${SIZE:-512m} each=${SECONDS_EACH:-5}
systems=("$@")
[ $# -gt 0 ] || systems=(local bindfs weft)
[[ " ${systems[*]} " != *" weft "* ]] && DIRECTORY=${TMPDIR:-/tmp}
begin
csv=$scratch/results.csv
mkdir "$scratch/local"
bound=""
if [[ " ${systems[*]} " == *" bindfs "* ]]; then
    needs bindfs
    bound=$scratch/bound
    mkdir "$bound" "$scratch/below"
    # Without big_writes libfuse 2 splits writes into pages.
    bindfs --multithreaded -o big_writes "$scratch/below" "$bound" || fail "bindfs does not mount"
fi
over() { [ -z "$bound" ] || umount "$bound" 2> /dev/null || umount -l "$bound"; end; }
trap over EXIT

drop() { sync; [ "$(id -u)" != 0 ] || echo 3 > /proc/sys/vm/drop_caches; }

# System, round, case, what of the report, then fio's options.
case_fio() {
    local system=$1 round=$2 name=$3 value=$4
    shift 4
    fio --name=job --ioengine=psync --randrepeat=0 --output-format=json "$@" 2> "$scratch/fio.errors" |
        python3 -c '
import json, sys
system, number, name, value = sys.argv[1:]
text = sys.stdin.read()
jobs = json.loads(text[text.index("{"):])["jobs"]
kind, unit = value.split("_")
of = lambda job: job[kind]["bw_bytes"] / 2**20 if unit == "MiB" else job[kind]["iops"]
print(f"{system},{name},{number},{unit}/s,{sum(map(of, jobs)):.1f}")' \
            "$system" "$round" "$name" "$value" | tee -a "$csv" || { tail -3 "$scratch/fio.errors" >&2; fail "fio failed"; }
}

small_files() {
    python3 - "$3" << 'PYTHON' | sed "s/^/$1,/; s/ROUND/$2/" | tee -a "$csv"
import os, sys, time
folder = os.path.join(sys.argv[1], "small")
os.mkdir(folder)
names = [os.path.join(folder, f"file{i}") for i in range(1000)]
def timed(what, work):
    start = time.monotonic()
    for name in names:
        work(name)
    print(f"{what},ROUND,files/s,{len(names) / (time.monotonic() - start):.0f}")
def write(name):
    with open(name, "wb") as f:
        f.write(b"x" * 4096)
timed("create and write 4 KiB", write)
timed("open and read 4 KiB", lambda name: open(name, "rb").read())
timed("stat", os.stat)
timed("remove", os.remove)
os.rmdir(folder)
PYTHON
}

run() {
    local system=$1 round=$2 at=$3
    local file="--filename=$at/file --size=$size" brief="--time_based --runtime=$each --norandommap"
    # shellcheck disable=SC2086
    {
        case_fio "$system" "$round" "write 1 MiB, fsync at the end" write_MiB $file --bs=1m --rw=write --end_fsync=1
        drop
        case_fio "$system" "$round" "read 1 MiB, cold" read_MiB $file --bs=1m --rw=read
        case_fio "$system" "$round" "read 1 MiB, warm" read_MiB $file --bs=1m --rw=read
        drop
        case_fio "$system" "$round" "random read 4 KiB" read_iops $file $brief --bs=4k --rw=randread
        case_fio "$system" "$round" "random write 4 KiB" write_iops $file $brief --bs=4k --rw=randwrite --end_fsync=1
        case_fio "$system" "$round" "random write 4 KiB, fdatasync" write_iops $file $brief --bs=4k --rw=randwrite --fdatasync=1
        rm -f "$at/file"
        case_fio "$system" "$round" "two writers 1 MiB" write_MiB --directory="$at" --size="$size" --numjobs=2 --bs=1m --rw=write --end_fsync=1
        rm -f "$at"/job.*
        small_files "$system" "$round" "$at"
    }
}

# In turns, so that what else the machine does falls on all.
for round in $(seq "$rounds"); do
    for system in "${systems[@]}"; do
        case $system in
            local) run local "$round" "$scratch/local" ;;
            bindfs) run bindfs "$round" "$bound" ;;
            weft) run weft "$round" "$work" ;;
            *) fail "there is no system $system: local, bindfs, weft" ;;
        esac
    done
done

[ -z "$results" ] || cp "$csv" "$results"
python3 - "$csv" << 'PYTHON'
import csv, statistics, sys
values, cases, systems = {}, {}, []
for system, *name, _, unit, value in csv.reader(open(sys.argv[1])):
    name = ",".join(name)
    cases[name] = unit
    if system not in systems:
        systems.append(system)
    values.setdefault((system, name), []).append(float(value))
shares = [s for s in systems if s != "weft"] if "weft" in systems else []
print("\n| case | " + " | ".join(systems + [f"weft / {s}" for s in shares]) + " |\n| --- |" + " --- |" * (len(systems) + len(shares)))
for name, unit in cases.items():
    middle = {s: statistics.median(values[s, name]) for s in systems if (s, name) in values}
    cells = [f"{middle[s]:,.0f} ({min(values[s, name]):,.0f}–{max(values[s, name]):,.0f})" if s in middle else "" for s in systems]
    cells += [f"{middle['weft'] / middle[s]:.2f}" if s in middle and "weft" in middle else "" for s in shares]
    print(f"| {name}, {unit} | " + " | ".join(cells) + " |")
PYTHON
