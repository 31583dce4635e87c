#!/usr/bin/env python3
"""Fails for a dependency that a crate declares and none of its sources names.

    scripts/unused-dependencies.py

A dependency counts as used where a source of the crate, or a file that one includes by `#[path]`, names it in a
path (`name::`), after `use` or in `extern crate`, and where a feature of the manifest mentions it. A dependency that
is there for its features alone says so on its line: `# features only`; one whose library is linked by something else:
`# library only`.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    wrong, used_in_workspace = [], set()
    for manifest in sorted([*ROOT.glob("crates/*/Cargo.toml"), ROOT / "bench/Cargo.toml", ROOT / "fuzz/Cargo.toml"]):
        text = manifest.read_text()
        crate = tomllib.loads(text)
        sections = {"dependencies": {"src", "build.rs"}, "dev-dependencies": set(), "build-dependencies": {"build.rs"}}
        tables = [crate, *crate.get("target", {}).values()]
        sources = {path.resolve() for path in manifest.parent.rglob("*.rs") if "target" not in path.parts}
        for path in list(sources):
            included = re.findall(r'#\[path = "([^"]+)"\]', path.read_text())
            sources |= {file for one in included for file in (path.parent / one).resolve().parent.rglob("*.rs")}
        everything = "\n".join(path.read_text() for path in sources)
        features = " ".join(entry for feature in crate.get("features", {}).values() for entry in feature)
        for section in sections:
            for name in {name for table in tables for name in table.get(section, {})}:
                used_in_workspace.add(name)
                line = re.search(rf"(?m)^{re.escape(name)}\b.*$", text)
                if line and re.search("(features|library) only", line.group(0)):
                    continue
                module = re.escape(name.replace("-", "_"))
                if not re.search(rf"\b{module}\b(?:::|;| as |!)", everything) and name not in features:
                    wrong.append(f"{manifest.relative_to(ROOT)}: {name} in [{section}] is used nowhere")
    for name in sorted(set(workspace["dependencies"]) - used_in_workspace):
        wrong.append(f"Cargo.toml: {name} in [workspace.dependencies] is used by no crate")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
