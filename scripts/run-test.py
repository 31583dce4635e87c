#!/usr/bin/env python3
"""Runs a test program, and ends it if it hangs: then it says which processes were there and where
they waited. ./check has cargo call it.

usage: run-test.py PROGRAM [ARGUMENT...]

WEFT_TEST_SECONDS is how long a program may take (1200).
"""

import os
import signal
import subprocess
import sys
from pathlib import Path


def descendants(root):
    """The processes below one, itself first, each with its command line."""
    children, lines = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(folder.name))
            lines[int(folder.name)] = line
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append((pid, lines.get(pid, "")))
        waiting += children.get(pid, [])
    return found


def waits(pid):
    """What the threads of a process wait for in the kernel."""
    places = []
    for thread in sorted(Path(f"/proc/{pid}/task").glob("*")):
        try:
            name, place = (thread / "comm").read_text().strip(), (thread / "wchan").read_text()
        except OSError:
            continue
        places.append(f"{name}: {place}")
    return places


def main():
    seconds = int(os.environ.get("WEFT_TEST_SECONDS", "1200"))
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = subprocess.Popen(sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: program.send_signal(number))
    try:
        code = program.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"\n{sys.argv[1]} has not ended in {seconds} s. Its processes:", flush=True)
        processes = descendants(program.pid)
        for pid, line in processes:
            print(f"  {pid} {line[:200]}")
            for place in waits(pid):
                print(f"      {place}")
        sys.stdout.flush()
        for pid, _ in processes:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        program.wait()
        sys.exit(124)
    sys.exit(code if code >= 0 else 128 - code)


main()
