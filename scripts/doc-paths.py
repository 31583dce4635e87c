#!/usr/bin/env python3
"""Checks that what the documents name is there.

    scripts/doc-paths.py

In README.md, ARCHITECTURE.md, CONTRIBUTING.md, docs/, bench/README.md and suites/README.md:
- `path/file.rs` is a file of the repository, or the end of the path of one;
- `path/file.rs:name` is such a file, and it defines the function, type, constant or macro `name`
  (`Type::name` means `name`);
- `folder/` in ARCHITECTURE.md and CONTRIBUTING.md is a folder of the repository, or the end of the path of one;
- docs/NAME.md is there, and so is the target of a relative link;
- `name_of_a_test`, of at least four words, is in some source; metrics and system calls (`weft_…`, `…_at`) aside.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ["ARCHITECTURE.md", "CONTRIBUTING.md"]
DOCUMENTS = [*CODE, "README.md", "bench/README.md", "suites/README.md"]


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).exists()]


def ends(paths, wanted):
    return [path for path in paths if path == wanted or path.endswith("/" + wanted)]


def defines(file, name):
    name = re.escape(name.split("::")[-1].removesuffix("()").removesuffix("!"))
    kinds = r"fn|struct|enum|trait|type|const|static|union|macro_rules!"
    return re.search(rf"\b(?:{kinds})\s+{name}\b", (ROOT / file).read_text()) is not None


def main():
    files = tracked()
    folders = sorted({"/".join(path.split("/")[:n]) for path in files for n in range(1, path.count("/") + 1)})
    sources = "\n".join((ROOT / path).read_text() for path in files if path.endswith((".rs", ".sh")))
    documents = [path for path in files if path in DOCUMENTS or (path.startswith("docs/") and path.endswith(".md"))]
    wrong = []
    for document in documents:
        fenced = False
        for number, line in enumerate((ROOT / document).read_text().splitlines(), 1):
            fenced ^= line.lstrip().startswith("```")
            if fenced:
                continue
            say = lambda what: wrong.append(f"{document}:{number}: {what}")  # noqa: E731
            for token in re.findall(r"`([^`\s]+)`", line):
                path, _, name = token.partition(":")
                if "NNNN" in path:
                    continue
                if re.fullmatch(r"[\w./-]+\.(rs|py|sh|md)", path):
                    found = ends(files, path.removeprefix("./"))
                    if not found:
                        say(f"there is no {path}")
                    elif name and not any(defines(file, name) for file in found):
                        say(f"{path} does not define {name}")
                elif re.fullmatch(r"[a-z_-]+(/[a-z_-]+)*/", token):
                    if document in CODE and not ends(folders, token.rstrip("/")):
                        say(f"there is no folder {token}")
                elif re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+){3,}", token):
                    if not token.startswith("weft_") and not token.endswith("_at") and token not in sources:
                        say(f"no source names {token}")
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line):
                there = (ROOT / document).parent / target
                if "://" not in target and not there.exists():
                    say(f"the link to {target} leads nowhere")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
