#!/usr/bin/env python3
"""Which file of a crate imports which, and whether any of them form a circle.

    scripts/imports.py            fails for a circle of files or of modules in any crate
    scripts/imports.py CRATE      lists the circles of one crate, and the modules of src/, lowest first

The modules of a folder are the folders and files directly in it; its own page (lib.rs, main.rs, mod.rs) is none of them. An import is a path in code (`use crate::a::B`, `super::B`,
`crate::a::f()`); it is followed through `pub use` to the file that defines the name. Test modules do not count.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "crates"


def expand(tree):
    """The paths of a use tree."""
    tree = " ".join(tree.split())
    opening = tree.find("{")
    if opening < 0:
        return [tree.split(" as ")[0].strip()] if tree else []
    head, body, depth, part, parts = tree[:opening], tree[opening + 1 : tree.rindex("}")], 0, "", []
    for c in body:
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return [path for part in [*parts, part] if part.strip() for path in expand(head.strip() + part.strip())]


def code_of(text):
    """The code outside test modules, comments and strings."""
    text = re.sub(r'"(\\.|[^"\\])*"', '""', re.sub(r"//[^\n]*", "", text), flags=re.S)
    text = re.split(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{", text)[0]
    return re.sub(r"pub\(in [^)]*\)", "pub(super)", text)


class Crate:
    def __init__(self, src):
        self.src = src
        self.modules = {}  # module path -> file
        self.code = {}
        for file in sorted(src.rglob("*.rs")):
            if file.name.endswith("tests.rs") or file.name.endswith("test_support.rs"):
                continue
            parts = list(file.relative_to(src).with_suffix("").parts)
            if parts[-1] in ("mod", "lib", "main"):
                parts.pop()
            self.modules[tuple(parts)] = file
            self.code[file] = code_of(file.read_text())
        self.exports = {file: self.exports_of(file) for file in self.code}

    def module(self, file):
        return next(path for path, other in self.modules.items() if other == file)

    def exports_of(self, file):
        """Names that a file hands on, and where they come from."""
        found = {}
        for tree in re.findall(r"\bpub(?:\([^)]*\))? use ([^;]+);", self.code[file]):
            for path in expand(tree):
                found[path.split("::")[-1]] = path
        return found

    def resolve(self, at, path, seen=()):
        """The file that defines what `path` names in the module `at`; None: it is of another crate."""
        segments = path.split("::")
        if segments[0] == "crate":
            place, rest = (), segments[1:]
        elif segments[0] in ("super", "self"):
            place, rest = at, segments
            while rest and rest[0] in ("super", "self"):
                place = place[:-1] if rest[0] == "super" else place
                rest = rest[1:]
        elif (*at, segments[0]) in self.modules:
            place, rest = at, segments
        else:
            return None
        while rest and (*place, rest[0]) in self.modules:
            place, rest = (*place, rest[0]), rest[1:]
        file = self.modules.get(place)
        if file and rest and rest[0] in self.exports[file] and (place, rest[0]) not in seen:
            onward = self.exports[file][rest[0]]
            return self.resolve(place, onward, (*seen, (place, rest[0]))) or file
        return file

    def imports(self):
        graph = {file: set() for file in self.code}
        for file, code in self.code.items():
            at = self.module(file)
            paths = []
            for handed, tree in re.findall(r"\b(pub(?:\([^)]*\))? )?use ([^;]+);", code):
                paths += [] if handed else expand(tree)
            rest = re.sub(r"\buse [^;]+;", "", code)
            paths += re.findall(r"\b(?:crate|super)(?:::\w+)+", rest)
            for path in paths:
                target = self.resolve(at, path)
                if target and target != file:
                    graph[file].add(target)
        return graph

    def folders(self):
        """src/ and all folders below it."""
        return sorted({folder for file in self.code for folder in file.parents if folder.is_relative_to(self.src)})


PAGES = {"lib.rs", "main.rs", "mod.rs"}


def module_in(folder, file):
    """The module of a folder that a file belongs to, if any."""
    if not file.is_relative_to(folder):
        return None
    name = file.relative_to(folder).parts[0]
    return None if name in PAGES else name


def modules_of(folder, graph):
    """The modules of a folder, and which of them each imports."""
    modules = {}
    for file, targets in graph.items():
        module = module_in(folder, file)
        if module:
            others = {module_in(folder, target) for target in targets} - {None, module}
            modules.setdefault(module, set()).update(others)
    return modules


def circles(graph):
    """The sets of nodes that reach one another (Tarjan)."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            circle = []
            while True:
                circle.append(stack.pop())
                on.discard(circle[-1])
                if circle[-1] == node:
                    break
            if len(circle) > 1:
                found.append(sorted(circle))

    sys.setrecursionlimit(10_000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def main(wanted):
    failed = False
    for src in sorted(ROOT.glob("*/src")):
        name = src.parent.name
        if wanted and name != wanted:
            continue
        crate = Crate(src)
        graph = crate.imports()
        lines = []
        for circle in circles(graph):
            lines.append(f"{name}: these files form a circle: {', '.join(str(f.relative_to(src)) for f in circle)}")
            for file in circle:
                for other in sorted(graph[file] & set(circle)):
                    lines.append(f"    {file.relative_to(src)} imports {other.relative_to(src)}")
        for folder in crate.folders():
            for circle in circles(modules_of(folder, graph)):
                lines.append(f"{name}: these modules of {folder.relative_to(src.parent)} form a circle: {', '.join(circle)}")
                for file, targets in sorted(graph.items()):
                    for other in sorted(targets):
                        pair = module_in(folder, file), module_in(folder, other)
                        if pair[0] != pair[1] and set(pair) <= set(circle):
                            lines.append(f"    {file.relative_to(src)} imports {other.relative_to(src)}")
        if lines:
            failed = True
            print("\n".join(lines))
        if wanted:
            modules = modules_of(src, graph)
            for number, module in floors(modules):
                print(f"{number:3} {module}: {', '.join(sorted(modules[module]))}")
    return failed


def floors(modules):
    """Each module that is in no circle, with one more than the highest floor that it imports from."""
    floor = {}
    while True:
        ready = [m for m in modules if m not in floor and all(o in floor for o in modules[m])]
        if not ready:
            return sorted((floor[module], module) for module in floor)
        for module in ready:
            floor[module] = 1 + max((floor[o] for o in modules[module]), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
