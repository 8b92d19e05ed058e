"""Documents match the repository: targets, links, commands, settings, parts of the tree."""

import itertools
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from enmasse.base.settings import Settings
from enmasse.cli import app

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "guide"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def documents() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(document: Path) -> None:
    prose = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), f"{link}: no such file"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_named_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text(), re.MULTILINE))
    assert named <= targets


def test_readme_opens_with_run_and_test() -> None:
    opening = (ROOT / "README.md").read_text().split("\n## ")[1]
    assert "make run" in opening and "make test" in opening


def test_contracts_are_numbered_from_1_to_10() -> None:
    contracts = (ROOT / "docs" / "contracts.md").read_text()
    numbers = re.findall(r"^## (\d+)\. ", contracts, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize("record", DECISIONS, ids=lambda path: path.stem)
def test_decisions_have_the_required_sections_and_length(record: Path) -> None:
    text = record.read_text()
    number = int(record.name[:4])
    assert re.match(rf"# {number}\. \S.*\n\n- Status: (accepted|replaced by \d+)", text)
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "What it beat", "Consequences"]
    assert len(text.splitlines()) <= 40, "half a page"
    assert f"({record.name})" in (record.parent / "README.md").read_text()


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "zensical.toml").read_text()
    tomllib.loads(navigation)
    for page in [ROOT / "docs" / "index.md", *GUIDE.glob("*.md")]:
        assert f'"{page.relative_to(ROOT / "docs")}"' in navigation


def commands(command: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command of the command line."""
    nested = getattr(command, "commands", None)
    if nested is None:
        return [path]
    return [found for name, child in nested.items() for found in commands(child, (*path, name))]


@pytest.mark.parametrize("words", commands(typer.main.get_command(app)), ids=" ".join)
def test_every_command_is_in_the_guide(words: tuple[str, ...]) -> None:
    assert f"enmasse {' '.join(words)}" in (GUIDE / "command-line.md").read_text()


def shell_commands(text: str) -> list[list[str]]:
    """The arguments of each `enmasse` in the shell blocks of a document."""
    found = []
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.wordchars += "@:{}[]!%+,^$"
            # A command follows the beginning of a line or a control operator.
            for ends, words in itertools.groupby(lexer, lambda word: set(word) <= set("|;&()<>")):
                command = " ".join(map(shlex.quote, () if ends else words))
                prefix = r"(?:sudo -u \S+ )?(?:[A-Z_]+=\S* )*(?:\S+/)?enmasse(?: |$)"
                if start := re.match(prefix, command):
                    found.append(shlex.split(command[start.end() :]))
    return found


def parse_command(command: Any, arguments: list[str]) -> None:
    """Parse arguments as the command line does, and run nothing."""
    context = command.make_context(command.name, list(arguments))
    words = [*context._protected_args, *context.args]
    if hasattr(command, "commands") and words:
        _, nested, rest = command.resolve_command(context, words)
        parse_command(nested, rest)


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_shell_blocks_parse(document: Path) -> None:
    for arguments in shell_commands(document.read_text()):
        try:
            parse_command(typer.main.get_command(app), arguments)
        except typer.Exit:
            pass  # --help, --version
        except typer.TyperException as error:
            pytest.fail(f"enmasse {shlex.join(arguments)}: {error}")


@pytest.mark.parametrize("setting", Settings.model_fields)
def test_every_setting_is_in_the_guide(setting: str) -> None:
    assert f"`--{setting.replace('_', '-')}`" in (GUIDE / "command-line.md").read_text()


def test_architecture_names_exactly_the_parts_of_the_tree() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    crates = [path.parent for path in (ROOT / "crates").glob("*/Cargo.toml")]
    packages = [path.parent for path in (ROOT / "python/enmasse").glob("*/__init__.py")]
    for part in [*crates, *packages]:
        assert f"{part.name}/" in text, f"{part.relative_to(ROOT)} is not in the code map"
    for named in re.findall(
        r"`((?:crates|python|tests|docs|bench|vectors|examples)/[\w./-]+)`", text
    ):
        assert (ROOT / named).exists(), f"{named} does not exist"


def test_each_acceptance_row_that_passes_has_a_test_with_its_id() -> None:
    """The test is in a file that the row names, if it names any."""
    rows = re.findall(
        r"^\| T-([A-Z]+)-([\d, ]+) \|[^|]*\| (passes[^|]*)\|$",
        (ROOT / "docs/acceptance.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) > 50
    without = []
    for group, numbers, state in rows:
        files = re.findall(r"`(tests/[\w/]+\.py)`", state)
        found = [ROOT / file for file in files] or list((ROOT / "tests").rglob("test_*.py"))
        named = re.findall(r"def (test_\w+)", "\n".join(path.read_text() for path in found))
        for number in numbers.split(", "):
            wanted = re.compile(rf"_T_{group}_(\d+_|and_)*{number}(_|$)")
            if not any(wanted.search(name) for name in named):
                without.append(f"T-{group}-{number}")
    assert without == []
