"""Writes docs/mqtt-conformance.md: each normative statement of MQTT and the tests that keep it.

The statements are in crates/mqtt/tests/statements.txt. A test names those that it keeps in its
doc comment (Rust) or docstring (Python): `[5: 3.1.2-3]` is MQTT-3.1.2-3 of 5.0, `[3: ..]` of 3.1.1;
other tests are named in the file.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
STATEMENTS = ROOT / "crates/mqtt/tests/statements.txt"
PAGE = ROOT / "docs/mqtt-conformance.md"

EDITS = ROOT / "crates/mqtt/tests/broken_rules.txt"

MARK = re.compile(r"\[(5|3): ([0-9.-]+)\]")
RUST_TEST = re.compile(
    r"((?:^[ \t]*///[^\n]*\n)+)(?:[ \t]*#\[[^\n]*\n)*[ \t]*fn (\w+)", re.MULTILINE
)
TITLES = {"5": "MQTT 5.0", "3": "MQTT 3.1.1"}

HEAD = """# MQTT conformance

<!-- Written by scripts/mqtt_conformance.py: run `make conformance` after a change of a test. -->

Each normative statement of the two standards by its number (`MQTT-3.1.2-3` is `3.1.2-3`), in short
words of our own; the standard's text decides. *machine* is the crate `mqtt`, *node* what surrounds
it. MQTT 3.1 differs from 3.1.1 in what `crates/mqtt/tests` names as such.
"""


BROKEN_HEAD = """
## Rules broken on purpose

`make mqtt-broken-rules` breaks each of these rules in `crates/mqtt/src`: its test must fail.

| statement | broken in | test that fails |
|---|---|---|
"""


@dataclass(frozen=True)
class Statement:
    """A line of the file of statements."""

    version: str
    number: str
    keeper: str
    rule: str
    note: str
    """Why it does not apply, or tests that do not name it themselves."""


def statements() -> list[Statement]:
    """All statements, in the order of the file."""
    found = []
    for line in STATEMENTS.read_text().splitlines():
        if line and not line.startswith("#"):
            version, number, keeper, text = line.split("|")
            rule, _, note = text.partition(";; ")
            found.append(Statement(version, number, keeper, rule.strip(), note))
    return found


def tests() -> dict[tuple[str, str], list[str]]:
    """Names of tests by the version and number of each statement that they name."""
    kept: dict[tuple[str, str], list[str]] = {}
    for statement in statements():
        if statement.keeper != "none" and statement.note:
            kept[statement.version, statement.number] = statement.note.split(", ")
    for name, text in [*_rust_tests(), *_python_tests()]:
        for mark in MARK.findall(text):
            names = kept.setdefault(mark, [])
            if name not in names:
                names.append(name)
    return kept


def _rust_tests() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.glob("crates/*/**/*.rs")):
        if "target" in path.parts:
            continue
        for comment, function in RUST_TEST.findall(path.read_text()):
            inside = path.relative_to(ROOT / "crates")
            if "tests" in inside.parts or inside.stem == "tests":
                module = inside.parts[-2] if inside.stem in ("mod", "main") else inside.stem
                yield f"{inside.parts[0]}: {module}::{function}", comment


def _python_tests() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.glob("tests/**/test_*mqtt*.py")):
        if path.name == "test_mqtt_conformance.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
                "test_"
            ):
                yield f"{path.stem}: {node.name}", ast.get_docstring(node) or ""


def page() -> str:
    """The page."""
    kept = tests()
    parts = [HEAD]
    for version, title in TITLES.items():
        listed = [statement for statement in statements() if statement.version == version]
        tested = sum((version, statement.number) in kept for statement in listed)
        none = sum(statement.keeper == "none" for statement in listed)
        counts = (
            f"{tested} with a test, {none} not applicable, {len(listed) - tested - none} without"
        )
        parts.append(f"\n## {title}\n\n{len(listed)} statements: {counts} a test.\n\n")
        parts.append("| statement | rule | kept by | tests |\n|---|---|---|---|\n")
        parts.extend(
            _row(statement, kept.get((version, statement.number), [])) for statement in listed
        )
    return "".join([*parts, BROKEN_HEAD, *map(_broken_row, EDITS.read_text().splitlines())])


def _broken_row(line: str) -> str:
    if line.startswith("#"):
        return ""
    statement, file, _, _, test = line.split("\t")
    return f"| {statement} | `{file}` | `{test}` |\n"


def _row(statement: Statement, names: list[str]) -> str:
    rule = statement.rule.replace("#", "`#`").replace("+ is", "`+` is")
    if statement.keeper == "none":
        return f"| {statement.number} | {rule} | | not applicable: {statement.note} |\n"
    listed = ", ".join(f"`{name}`" for name in names) or "no test yet"
    return f"| {statement.number} | {rule} | {statement.keeper} | {listed} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")
