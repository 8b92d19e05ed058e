"""Modules of a Rust crate import each other without cycles.

Checked are the modules of one folder among each other: each may import those that come before it in
some order. A module and the folder that declares it are one unit, so that a child may use its
parent's types. Names that a parent re-exports count as the child's that defines them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CRATES = sorted(Path("crates").glob("*/src"))

USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
PATH = re.compile(r"\b((?:crate|super)(?:::\w+)+)")
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*", re.MULTILINE | re.DOTALL)


def flattened(tree: str) -> Iterator[str]:
    """Every path in a use declaration: `a::{b, c::{d}}` is `a::b` and `a::c::d`."""
    tree = re.sub(r"\s+", " ", tree.strip())
    if (brace := tree.find("{")) < 0:
        yield tree.split(" as ")[0]
        return
    prefix, depth, start = tree[:brace], 0, brace + 1
    for at, char in enumerate(tree):
        depth += (char == "{") - (char == "}")
        if (char == "," and depth == 1) or (char == "}" and depth == 0):
            if part := tree[start:at].strip():
                yield from flattened(prefix + part)
            start = at + 1


class Crate:
    """The modules of one crate, and what they import."""

    def __init__(self, source: Path) -> None:
        self.files: dict[tuple[str, ...], str] = {}
        for file in source.rglob("*.rs"):
            path = file.relative_to(source).with_suffix("").parts
            if "tests" in path or path[0] in {"main", "bin"}:
                continue
            module = path[:-1] if path[-1] in {"mod", "lib"} else path
            text = re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.MULTILINE)
            self.files[module] = TESTS.sub("", text)
        self.exports = {module: dict(self._exports(module)) for module in self.files}

    def _exports(self, module: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Names that a module has from its children, and the paths of those."""
        for use in USE.findall(self.files[module]):
            for path in flattened(use):
                parts = tuple(part for part in path.split("::") if part != "self")
                if len(parts) > 1 and (*module, parts[0]) in self.files:
                    yield parts[-1], (*module, *parts)

    def _resolve(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The module of a path in the crate: re-exports are followed."""
        for _ in range(8):
            known = max(
                (path[:end] for end in range(len(path) + 1) if path[:end] in self.files), key=len
            )
            rest = path[len(known) :]
            if not rest or rest[0] not in self.exports[known]:
                return known
            path = self.exports[known][rest[0]] + rest[1:]
        return known

    def imports(self, module: tuple[str, ...]) -> set[tuple[str, ...]]:
        """The modules that a module names."""
        text = self.files[module]
        paths = {path for use in USE.findall(text) for path in flattened(use)}
        paths |= set(PATH.findall(USE.sub("", text)))
        found = set()
        for path in paths:
            parts = path.split("::")
            at = () if parts[0] == "crate" else module
            if parts[0] not in {"crate", "super"}:
                continue
            if parts[0] == "crate":
                parts = parts[1:]
            while parts and parts[0] == "super":
                at, parts = at[:-1], parts[1:]
            found.add(self._resolve((*at, *parts)))
        return found

    def cycles(self) -> Iterator[tuple[str, set[str]]]:
        """Sets of modules of one folder that import each other."""
        edges: dict[tuple[str, ...], dict[str, set[str]]] = {}
        for module in self.files:
            for other in self.imports(module):
                shared = 0
                while shared < min(len(module), len(other)) and module[shared] == other[shared]:
                    shared += 1
                if shared < min(len(module), len(other)):
                    siblings = edges.setdefault(module[:shared], {})
                    siblings.setdefault(module[shared], set()).add(other[shared])
        for folder, graph in sorted(edges.items()):
            for cycle in components(graph):
                yield "/".join(folder), cycle


def components(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Strongly connected components of more than one module."""

    def reached(start: str) -> set[str]:
        seen, left = set(), [start]
        while left:
            for following in graph.get(left.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    left.append(following)
        return seen

    reach = {module: reached(module) for module in graph}
    left = set(graph)
    while left:
        module = min(left)
        cycle = {other for other in reach[module] if module in reach.get(other, ())} | {module}
        left -= cycle
        if len(cycle) > 1:
            yield cycle


@pytest.mark.parametrize("source", CRATES, ids=lambda source: source.parent.name)
def test_modules_of_a_folder_import_each_other_without_cycles(source: Path) -> None:
    assert list(Crate(source).cycles()) == []


def test_a_cycle_is_found(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\nmod c;\npub use c::Item;\n",
        "a.rs": "use super::b::{self, Thing};\nuse std::sync::Arc;\n",
        "b.rs": "fn f() { crate::Item::new() }\n",
        "c.rs": "use crate::{\n    a::Other,\n};\n#[cfg(test)]\nmod tests {\n    use crate::b;\n",
    }
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    assert list(Crate(tmp_path).cycles()) == [("", {"a", "b", "c"})]
    (tmp_path / "b.rs").write_text("// crate::Item\nuse super::super::x;\n")
    assert list(Crate(tmp_path).cycles()) == []
