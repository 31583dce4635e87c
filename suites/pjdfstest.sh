#!/bin/bash
# pjdfstest on a mounted volume, as root; every failure must stand in pjdfstest.expected with its reason, and every line there
# must still fail.
#
#   PJDFSTEST_SRC=/path/to/pjdfstest WEFT=/path/to/weft suites/pjdfstest.sh [tests/rename …]
#
# DIRECTORY=/some/dir instead of WEFT tests another file system (and compares with nothing if EXPECTED=/dev/null).

. "$(dirname "$(readlink -f "$0")")/lib.sh"
here=$(dirname "$(readlink -f "$0")")
: "${PJDFSTEST_SRC:?set it to a directory with the source of pjdfstest; see suites/README.md}"
expected=${EXPECTED:-$here/pjdfstest.expected}
needs autoreconf make gcc prove openssl findmnt
[ "$(id -u)" = 0 ] || fail "pjdfstest changes users: run it as root"
[ -f "$PJDFSTEST_SRC/pjdfstest.c" ] || fail "PJDFSTEST_SRC=$PJDFSTEST_SRC holds no pjdfstest.c"
begin

say "building"
cp -r "$PJDFSTEST_SRC" "$scratch/source"
(cd "$scratch/source" && autoreconf -ifs && ./configure && make pjdfstest) > "$scratch/build.log" 2>&1 ||
    { tail -20 "$scratch/build.log" >&2; fail "pjdfstest does not build"; }

cd "$work" || fail "cannot enter $work"
wanted=("$@")
[ $# -gt 0 ] || wanted=(tests)
say "running ${wanted[*]}"
timeout "${LIMIT:-3600}" prove -r -v "${wanted[@]/#/$scratch/source/}" > "$scratch/report" 2> "$scratch/errors"
status=$?
[ "$status" = 124 ] && fail "not done after ${LIMIT:-3600} s; the last lines: $(tail -3 "$scratch/report")"
grep -q '^Files=' "$scratch/report" || { tail -20 "$scratch/errors" >&2; fail "prove did not get to its end"; }

# One line per failed test: file and number. Tests that fail as they should ("TODO") are not counted.
awk -v root="$scratch/source/tests/" '
    / \.\. ?$/ { file = $1; sub(root, "", file) }
    /^not ok / && !/# TODO/ { print file, $3 }
    /^Bail out|^Dubious/ { print file, "died" }' "$scratch/report" | sort -u > "$scratch/failed"
# A file that planned more tests than it ran failed as a whole.
grep -E "Bad plan|Non-zero exit status" -B3 "$scratch/report" | sed -n "s|^$scratch/source/tests/\([^ ]*\) .*Failed: 0).*|\1 died|p" >> "$scratch/failed"
sed 's/#.*//; s/[[:space:]]*$//; /^$/d' "$expected" | sort -u > "$scratch/expected"
[ $# -gt 0 ] && { cut -d' ' -f1 "$scratch/expected" | sort -u > /dev/null
    grep -F -f <(printf '%s\n' "${wanted[@]#tests/}") "$scratch/expected" > "$scratch/some"; mv "$scratch/some" "$scratch/expected"; }

new=$(comm -23 <(sort -u "$scratch/failed") "$scratch/expected")
gone=$(comm -13 <(sort -u "$scratch/failed") "$scratch/expected")
grep '^Files=' "$scratch/report"
say "$(wc -l < "$scratch/failed") tests failed, $(wc -l < "$scratch/expected") were expected to"
[ -n "${REPORT:-}" ] && cp "$scratch/report" "$REPORT"
if [ -n "$new" ]; then
    echo "Failed and not expected to:"
    echo "$new" | while read -r file number; do
        echo "$file $number: $(awk -v f="$scratch/source/tests/$file" -v n="$number" '
            / \.\. ?$/ { now = $1 } now == f && $1 == "not" && $3 == n { print; exit }' "$scratch/report")"
    done
fi
[ -n "$gone" ] && printf 'Expected to fail and did not (remove from %s):\n%s\n' "$expected" "$gone"
[ -z "$new$gone" ]
