#!/bin/bash
# fsx on a mounted volume: random reads, writes, maps, truncates, holes and copies of one file, compared with memory.
#
#   FSX_SRC=/path/to/xfstests WEFT=/path/to/weft suites/fsx.sh
#
# SEEDS="1 2 3" and OPERATIONS=20000 say how many; FSX_OPTIONS is handed on. With a volume of its own, servers are killed and
# started again while the last runs go on: whatever was written must still be there.

. "$(dirname "$(readlink -f "$0")")/lib.sh"
: "${FSX_SRC:?set it to a directory with the source of xfstests (or its ltp/fsx.c); see suites/README.md}"
needs gcc findmnt
source=$FSX_SRC/ltp/fsx.c
[ -f "$source" ] || source=$FSX_SRC/fsx.c
[ -f "$source" ] || fail "FSX_SRC=$FSX_SRC holds no ltp/fsx.c"
begin

# fsx needs of its suite only a header that a configure script fills in; these are the answers for Linux.
mkdir "$scratch/empty"
: > "$scratch/empty/config.h"
have=(FALLOCATE COPY_FILE_RANGE)
for header in sys/types sys/stat sys/time sys/ioctl sys/param sys/mman sys/wait linux/falloc \
    unistd stdlib string strings errno fcntl malloc dirent libgen signal assert; do
    have+=("$(tr a-z/ A-Z_ <<< "$header")_H")
done
gcc -O2 -w -include getopt.h -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 "${have[@]/#/-DHAVE_}" -I"$scratch/empty" \
    -I"$(dirname "$source")/../src" -I"$(dirname "$source")" -o "$scratch/fsx" "$source" || fail "fsx does not build"

seeds=${SEEDS:-1 2 3 4}
operations=${OPERATIONS:-20000}
failed=0

# Name, then options.
run() {
    local name=$1 log
    shift
    log=$scratch/$name.log
    # shellcheck disable=SC2086
    if (cd "$work" && timeout "${LIMIT:-900}" "$scratch/fsx" -q -N "$operations" "$@" ${FSX_OPTIONS:-} -P "$scratch" "$name" > "$log" 2>&1); then
        say "$name: ok"
    else
        local status=$?
        say "$name: FAILED ($status) $*"
        head -4 "$log"; tail -40 "$log"
        failed=1
    fi
    rm -f "$work/$name"
}

for seed in $seeds; do
    run "all-$seed" -S "$seed"
    run "reads-and-writes-$seed" -S "$seed" -R -W
    run "large-$seed" -S "$((seed + 100))" -l 16777216 -o 1048576
    run "reopened-$seed" -S "$((seed + 200))" -c 20 -f
done

if [ -n "$volume" ]; then
    run "restarted" -S 301 -y &
    running=$!
    server=0
    while kill -0 "$running" 2> /dev/null; do
        sleep 2
        restart_server "$server"
        server=$(((server + 1) % ${SERVERS:-3}))
    done
    wait "$running"
    grep -q "A-OK" "$scratch/restarted.log" || failed=1
fi
exit "$failed"
