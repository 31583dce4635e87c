#!/bin/bash
# Everyday programs on a mounted volume, each with a check that can fail.
#
#   WEFT=/path/to/weft suites/programs.sh [case …]        cases: git make sqlite_wal sqlite_rollback rsync tar find save tree
#                                                     repository archive
#
# TREE (/usr/share) is the real tree that is copied in and out (tree), kept in git, cloned and built from (repository), packed,
# unpacked and synchronised (archive). BUILD is a command that builds in the clone and fails if it cannot.
# ROUNDS (8) is how often SQLite is killed. Needs git, gcc, make, python3, rsync.

. "$(dirname "$(readlink -f "$0")")/lib.sh"
needs git gcc make python3 rsync tar find findmnt cmp
begin
tree=${TREE:-/usr/share}
failed=()

# A C project of some hundred files that include one another, as most have them.
project() {
    local at=$1 i
    mkdir -p "$at/source" "$at/include" && cd "$at" || return 1
    for i in $(seq 120); do
        printf '#pragma once\nint part%d(int);\n' "$i" > "include/part$i.h"
        printf '#include <stdio.h>\n#include "part%d.h"\n#include "part%d.h"\nint part%d(int x) { return x > 0 ? part%d(x - 1) + %d : 0; }\n' \
            "$i" $((i % 120 + 1)) "$i" $((i % 120 + 1)) "$i" > "source/part$i.c"
    done
    printf '#include <stdio.h>\n#include "part1.h"\nint main(void) { printf("%%d\\n", part1(120)); return 0; }\n' > source/main.c
    cat > Makefile << 'MAKE'
objects := $(patsubst source/%.c,build/%.o,$(wildcard source/*.c))
build/program: $(objects)
	$(CC) -o $@ $^
build/%.o: source/%.c | build
	$(CC) -O1 -MMD -Iinclude -c -o $@ $<
build:
	mkdir build
-include $(objects:.o=.d)
MAKE
}

case_git() {
    project "$work/git/project" || return 1
    git init -q . && git config user.email t@example.org && git config user.name test || return 1
    git add . && git commit -qm one || return 1
    for i in $(seq 20); do
        echo "/* $i */" >> "source/part$i.c"
        git commit -qam "change $i" || return 1
    done
    git branch old HEAD~10 && git checkout -q old && git checkout -q - && git gc -q && git fsck --strict || return 1
    git clone -q "$work/git/project" "$work/git/clone" && git -C "$work/git/clone" fsck --strict || return 1
    git clone -q "$work/git/project" "$scratch/git-out" || return 1
    [ -z "$(git status --porcelain)" ] && [ "$(git -C "$scratch/git-out" rev-parse HEAD)" = "$(git rev-parse HEAD)" ]
}

case_make() {
    project "$work/make" || return 1
    make -s -j4 && [ "$(build/program)" = 7260 ] || return 1
    # Nothing is older than what it was made from, and a change is seen.
    [ "$(make -j4)" = "make: 'build/program' is up to date." ] || { make -n | head -3; return 1; }
    sleep 0.01
    echo '/* changed */' >> include/part7.h
    [ "$(make -n | grep -c -- ' -c ')" = 2 ]
}

# A writer that says after each commit how far it is, killed at some moment: no commit that it told of may be missing.
sqlite() {
    local journal=$1 round writer told
    mkdir -p "$work/sqlite" && cd "$work/sqlite" || return 1
    for round in $(seq "${ROUNDS:-8}"); do
        python3 - "$journal.db" "$journal" > "$scratch/told" 2> "$scratch/sqlite.errors" << 'PYTHON' &
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
db.execute(f"pragma journal_mode={sys.argv[2]}")
db.execute("pragma synchronous=full")
db.execute("create table if not exists t(n integer primary key, filler blob)")
n = db.execute("select coalesce(max(n), 0) from t").fetchone()[0]
while True:
    db.execute("begin immediate")
    for _ in range(5):
        n += 1
        db.execute("insert into t values(?, randomblob(2000))", (n,))
    db.execute("commit")
    print(n, flush=True)
PYTHON
        writer=$!
        # Killed while it is at work, however long it takes to begin.
        for _ in $(seq 1200); do [ -s "$scratch/told" ] && break; sleep 0.05; done
        sleep "1.$((round * 137 % 1000))"
        kill -9 "$writer" 2> /dev/null || { cat "$scratch/sqlite.errors"; return 1; }
        wait "$writer" 2> /dev/null
        told=$(tail -1 "$scratch/told")
        [ -n "$told" ] || { echo "nothing was committed"; return 1; }
        python3 - "$journal.db" "$told" << 'PYTHON' || return 1
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=30)
check = db.execute("pragma integrity_check").fetchall()
count, last = db.execute("select count(*), max(n) from t").fetchone()
assert check == [("ok",)], check
assert last >= int(sys.argv[2]), f"told of {sys.argv[2]}, found {last}"
assert count == last and last % 5 == 0, (count, last)
PYTHON
    done
}
case_sqlite_wal() { sqlite wal; }
case_sqlite_rollback() { sqlite delete; }

# Name, kind, mode, owner, size, time to the nanosecond, link's text, and who shares an inode with whom.
manifest() {
    (cd "$1" && find . -mindepth 1 -printf '%p|%y|%m|%U:%G|%l|%n|%i|%T@|' \( -type d -printf '\n' -o -printf '%s\n' \)) | LC_ALL=C sort |
        awk -F'|' -v OFS='|' '$2 != "d" && $6 > 1 { if (!($7 in first)) first[$7] = $1; $7 = first[$7]; print; next } NF > 6 { $7 = "" } 1'
}

contents() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0r sha256sum); }

same() {
    local part
    for part in manifest contents; do
        "$part" "$1" > "$scratch/$part.a"
        "$part" "$2" > "$scratch/$part.b"
        [ -s "$scratch/$part.a" ] || { echo "$1 is empty"; return 1; }
        cmp -s "$scratch/$part.a" "$scratch/$part.b" || { diff -a "$scratch/$part.a" "$scratch/$part.b" | head -20; return 1; }
    done
}

# A small tree with all there is: kinds, modes, owners, old and future times, names, holes, hard links.
samples() {
    mkdir -p "$1/deep/er/and/deeper" "$1/empty" && cd "$1" || return 1
    head -c 3000000 /dev/urandom > large
    : > nothing
    truncate -s 5M sparse && printf x | dd of=sparse bs=1 seek=3000000 conv=notrunc status=none
    printf 'name' > "$(printf 'odd \n\t\\"name\377')"
    ln large deep/er/hard
    ln -s ../nowhere deep/dangling
    mkfifo fifo && touch -d '2001-02-03 04:05:06 UTC' fifo
    chmod 4755 nothing && chmod 1777 empty && chmod 0400 deep/er/hard
    touch -d '1970-01-01 00:00:01.000000002 UTC' nothing
    touch -d '2098-05-04 03:02:01.987654321 UTC' sparse
    [ "$(id -u)" != 0 ] || chown 1234:4321 sparse
}

case_rsync() {
    samples "$scratch/samples" && cd / || return 1
    rsync -aHAXS "$scratch/samples/" "$work/rsync/" && same "$scratch/samples" "$work/rsync" || return 1
    [ -z "$(rsync -aHAXSni "$scratch/samples/" "$work/rsync/")" ] || { rsync -aHAXSni "$scratch/samples/" "$work/rsync/" | head -5; return 1; }
    rsync -aHAXS --delete "$work/rsync/" "$scratch/rsync-out/" && same "$scratch/samples" "$scratch/rsync-out"
    local result=$?
    rm -rf "$scratch/samples" "$scratch/rsync-out"
    return $result
}

case_tar() {
    samples "$work/tar/in" && cd "$work/tar" || return 1
    tar --format=pax -cf all.tar -S -C in . && mkdir out && tar -xpf all.tar -C out && same in out
}

case_find() {
    mkdir -p "$work/find" && cd "$work/find" || return 1
    mkdir -p dir{1..30} && touch dir{1..30}/file{1..100} || return 1
    [ "$(find . -type f | wc -l)" = 3000 ] && [ "$(find . -type d | wc -l)" = 31 ] || return 1
    [ "$(find . -name 'file7*' -newermt '1 hour ago' | wc -l)" = 330 ] || return 1
    find . -name 'file*5' -delete
    [ "$(find . -type f | wc -l)" = 2700 ] && rm -r dir1 && [ "$(find . -type f | wc -l)" = 2610 ]
}

# Editors write beside and rename over: a reader sees the old or the new, whole.
case_save() {
    mkdir -p "$work/save" && cd "$work/save" || return 1
    python3 - << 'PYTHON'
import os, threading
def version(n): return (b"%06d" % n) * 5000
open("file", "wb").write(version(0))
done, wrong, reads = False, [], 0
def reader():
    global reads
    while not done:
        data = open("file", "rb").read()
        reads += 1
        if len(data) != 30000 or data != data[:6] * 5000:
            wrong.append((len(data), data[:12]))
thread = threading.Thread(target=reader); thread.start()
for n in range(1, 400):
    with open("file.tmp", "wb") as f:
        f.write(version(n)); f.flush(); os.fsync(f.fileno())
    os.rename("file.tmp", "file")
done = True; thread.join()
assert not wrong, wrong[:3]
assert reads > 10 and open("file", "rb").read() == version(399), reads
PYTHON
}

case_tree() {
    cd / || return 1
    cp -a "$tree" "$work/tree" && same "$tree" "$work/tree" || return 1
    cp -a "$work/tree" "$scratch/tree" && same "$tree" "$scratch/tree"
    local result=$?
    rm -rf "$scratch/tree" "$work/tree"
    [ $result = 0 ] && [ ! -e "$work/tree" ]
}

# The clone's files are those of the tree, git finds no fault with it, and it can be worked in.
case_repository() {
    local at=$work/repository
    mkdir -p "$at" && cp -a "$tree" "$at/tree" && cd "$at/tree" || return 1
    git init -q . && git config user.email t@example.org && git config user.name test && git config gc.auto 0 || return 1
    git add -A -f . && git commit -qm all && git fsck --strict || return 1
    git clone -q --no-hardlinks . ../clone && cd ../clone && git fsck --strict && [ -z "$(git status --porcelain)" ] || return 1
    [ "$(git ls-files | wc -l)" = "$(git -C ../tree ls-files | wc -l)" ] && git grep -qI '' || return 1
    git checkout -q -b other && git ls-files -z > ../files && head -z -n 2000 ../files | xargs -0 git rm -q && git commit -qm fewer || return 1
    git checkout -q - && [ -z "$(git status --porcelain)" ] && git gc -q && git fsck || return 1
    sh -c "${BUILD:-true}"
}

case_archive() {
    cd "$work" || return 1
    tar -C "$tree" -cf archive.tar . && mkdir unpacked && tar -C unpacked -xpf archive.tar && same "$tree" unpacked || return 1
    rsync -aHAX --delete unpacked/ synced/ && same "$tree" synced || return 1
    [ -z "$(rsync -aHAXni --delete unpacked/ synced/)" ] && [ "$(find synced | wc -l)" = "$(find "$tree" | wc -l)" ] || return 1
    rm -r unpacked synced && [ -z "$(ls -A unpacked synced 2> /dev/null)" ]
}

cases=("$@")
[ $# -gt 0 ] || cases=(git make sqlite_wal sqlite_rollback rsync tar find save tree repository archive)
for name in "${cases[@]}"; do
    declare -f "case_$name" > /dev/null || fail "there is no case $name"
    started=$SECONDS
    if ("case_$name") > "$scratch/$name.log" 2>&1; then
        say "$name: ok ($((SECONDS - started)) s)"
    else
        say "$name: FAILED ($((SECONDS - started)) s)"
        tail -20 "$scratch/$name.log"
        failed+=("$name")
    fi
done
[ ${#failed[@]} = 0 ]
