# shellcheck shell=bash
# What the suites share: a place to test in, and an end that leaves nothing behind. Sourced, not run.
#
#   DIRECTORY=/some/dir   test there, whatever file system it is; nothing is mounted
#   WEFT=/path/to/weft    else: a new volume of SERVERS (3) servers on this machine, mounted with MOUNT_OPTIONS
#
# After `begin`, $work is an empty folder to test in, $scratch one on the local disk for builds and reports. With a volume of
# their own, suites may also `restart_server N`: kill −9 and start again.

set -u -o pipefail

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }
say() { echo "== $*"; }

needs() {
    local tool
    for tool in "$@"; do
        command -v "$tool" > /dev/null || fail "$tool is missing; suites/README.md says what to install"
    done
}

begin() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/weft-suite.XXXXXX") || fail "cannot make a folder in ${TMPDIR:-/tmp}"
    trap end EXIT
    trap 'exit 130' INT TERM
    volume="" mounted=""
    if [ -n "${DIRECTORY:-}" ]; then
        [ -d "$DIRECTORY" ] || fail "DIRECTORY=$DIRECTORY is no directory"
        work=$(mktemp -d "$DIRECTORY/suite.XXXXXX") || fail "cannot write in $DIRECTORY"
    else
        : "${WEFT:?set DIRECTORY to a directory to test in, or WEFT to the program}"
        [ -x "$WEFT" ] || fail "WEFT=$WEFT cannot be run"
        volume=$scratch/volume mounted=$scratch/mount
        mkdir "$mounted"
        "$WEFT" up "$volume" --servers "${SERVERS:-3}" > "$scratch/up.log" 2>&1 || { cat "$scratch/up.log" >&2; fail "the volume does not start"; }
        mount_volume
        work=$mounted/suite
        mkdir "$work" || fail "cannot make a folder in the mounted volume"
    fi
    chmod 755 "$scratch" "$work"
    say "in $work ($(findmnt -no FSTYPE -T "$work"))"
}

mount_volume() {
    "$WEFT" --volume "$volume" mount "$mounted" -o "${MOUNT_OPTIONS:-allow_other}" >> "$scratch/up.log" 2>&1 ||
        { cat "$scratch/up.log" >&2; fail "the volume cannot be mounted"; }
}

unmount_volume() { "$WEFT" unmount "$mounted" >> "$scratch/up.log" 2>&1 || umount -l "$mounted"; }

# The process that serves server $1; no other volume lies in our folder.
server_process() {
    local process
    for process in /proc/[0-9]*; do
        [[ "$(tr '\0' ' ' 2> /dev/null < "$process/cmdline")" == *" $volume/weft.toml "*" --server $1 "* ]] || continue
        basename "$process"
        return
    done
    return 1
}

restart_server() {
    local process
    process=$(server_process "$1") || fail "server-$1 is not running"
    kill -9 "$process"
    while kill -0 "$process" 2> /dev/null; do sleep 0.05; done
    "$WEFT" up "$volume" >> "$scratch/up.log" 2>&1 || { cat "$scratch/up.log" >&2; fail "server-$1 does not come back"; }
}

end() {
    local status=$?
    trap - EXIT
    cd /
    local job
    for job in $(jobs -p); do
        kill "$job" 2> /dev/null
        wait "$job" 2> /dev/null
    done
    if [ -n "$volume" ]; then
        [ "$status" = 0 ] || cp "$volume"/*.log "$volume"/*/*.log "${KEEP_LOGS:-/dev/null}" 2> /dev/null
        mountpoint -q "$mounted" && unmount_volume
        "$WEFT" down "$volume" > /dev/null 2>&1
        mountpoint -q "$mounted" && umount -l "$mounted"
    elif [ -n "${work:-}" ]; then
        rm -rf "$work"
    fi
    # Nothing of the volume may be touched through a mount that would not go.
    mountpoint -q "${mounted:-/nonexistent}" || rm -rf "$scratch"
    exit "$status"
}
