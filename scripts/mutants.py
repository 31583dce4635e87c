#!/usr/bin/env python3
"""Plants faults in a copy of the sources, one at a time, and runs the tests that must notice each.

    scripts/mutants.py [NAME ...]     those of this name; without: all

A fault that no test notices, or whose place is no longer there, fails. Builds go to target/, beside those of the
sources themselves.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# name: what is wrong with it; file; the code, and what takes its place; package and tests, one of which must fail.
MUTANTS = {
    "old-names-unchecked": (
        "a commit takes place whatever the old names are (CAPFS 3.2)",
        "crates/weft-store/src/addressed/named.rs",
        "Some(old) => self.entries(key, None, named.first..last).await? != *old,",
        "Some(old) => self.entries(key, None, named.first..last).await?.len() != old.len(),",
        ("weft-store", ["chunks_are_written_by_name_if_they_are_there_and_the_old_names_hold"]),
    ),
    "base-unchecked": (
        "a chunk is replaced by one that was made of an older one",
        "crates/weft-store/src/addressed/change.rs",
        "let is_same = made.base == Base::Entry(entry);",
        "let is_same = made.base == Base::Entry(entry) || made.base != Base::Nothing;",
        ("weft-store", ["addressed"]),
    ),
    "sharers-not-waited-for": (
        "a change is acknowledged before its sharers have dropped what they keep",
        "crates/weft-server/src/io/sharers/calls.rs",
        "        self.sharers.wait(told).await;\n    }\n\n    /// Makes a client a sharer",
        "        if self.sharers.of(file) == usize::MAX {\n            self.sharers.wait(told).await;\n        }\n    }\n\n    /// Makes a client a sharer",
        (
            "weft-client",
            ["coherent_names_never_show_what_was_overwritten", "histories_of_random_runs_keep_the_promises"],
        ),
    ),
    "invalidation-lost": (
        "a client does not hear of changes",
        "crates/weft-client/src/cache/shared.rs",
        "            match &change.bytes {\n",
        "            match &change.bytes {\n                _ if change.file != 0 => {}\n",
        (
            "weft-client",
            ["histories_of_random_runs_keep_the_promises", "an_existing_checker_finds_operations_in_order"],
        ),
    ),
    "decision-ignored": (
        "an operation whose client died is discarded on a server although it was decided",
        "crates/weft-server/src/io/order/calls.rs",
        "                Ok(reply) => return reply.committed,",
        "                Ok(reply) => return reply.committed && id == 0,",
        ("weft-client", ["a_write_that_was_decided_takes_effect_on_all_servers"]),
    ),
    "claims-reordered": (
        "a claim is granted before an earlier one that conflicts with it",
        "crates/weft-server/src/io/order/schedule.rs",
        "        let free = !claims.iter().any(|c| c.conflicts(mode, extents));\n        let first = if free {",
        "        let free = !claims.iter().any(|c| c.mode == mode && c.conflicts(mode, extents));\n"
        "        let first = if free {",
        (
            "weft-client",
            [
                "operations_on_all_servers_are_atomic_and_linearizable",
                "an_existing_checker_finds_operations_in_order",
                "histories_of_random_runs_keep_the_promises",
            ],
        ),
    ),
}


def copy_sources(to):
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def target():
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def cargo(tree, package, *arguments, **options):
    command = ["cargo", "test", "--quiet", "--locked", "-p", package, "--test", "all", *arguments]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target()), "RUST_BACKTRACE": "0"}
    return subprocess.run(command, cwd=tree, env=environment, **options)


def check(name, tree):
    what, file, before, after, (package, tests) = MUTANTS[name]
    print(f"{name}: {what}", flush=True)
    path = tree / file
    original = path.read_text()
    if original.count(before) != 1:
        return f"{name}: its place in {file} is there {original.count(before)} times, not once"
    path.write_text(original.replace(before, after))
    try:
        if cargo(tree, package, "--no-run").returncode != 0:
            return f"{name}: it does not compile"
        ran = cargo(tree, package, "--", *tests, capture_output=True, text=True, timeout=900)
        said = ran.stdout + ran.stderr
        if not re.search(r"^running [1-9]", said, re.M):
            return f"{name}: there are no tests {', '.join(tests)}"
        noticed = re.findall(r"^    (\w+::\S+)$", said, re.M)
        if ran.returncode == 0:
            return f"{name}: no test noticed it"
        print("    noticed by " + ", ".join(sorted(set(noticed))), flush=True)
        return None
    finally:
        path.write_text(original)
        # As old as before, so that the next build sees the change back.
        os.utime(path)


def main():
    names = sys.argv[1:] or list(MUTANTS)
    unknown = [name for name in names if name not in MUTANTS]
    if unknown:
        sys.exit(f"there is no {', '.join(unknown)}; there are {', '.join(MUTANTS)}")
    # Always in the same folder, so that what was built of it is of use the next time.
    tree = target() / "mutants"
    shutil.rmtree(tree, ignore_errors=True)
    try:
        copy_sources(tree)
        wrong = [wrong for name in names if (wrong := check(name, tree))]
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    for text in wrong:
        print(text, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
