"""Repository rules that no linter checks: sizes, names, leftovers, required files."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
CODE_SUFFIXES = {".py", ".pyi", ".rs", ".js", ".java", ".go", ".sh"}
LOCK_FILES = {"Cargo.lock", "requirements.lock", "package-lock.json", "go.sum"}
PURE_CRATES = ("amqp", "columns", "journal", "router", "sim")
SAYS_NOTHING = re.compile(r"^(utils?|helpers?|common|misc|manager2|(new|old|tmp|scratch)(_.*)?)$")


def tracked() -> list[Path]:
    """Every file that is, or would be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


FILES = tracked()
CODE = [path for path in FILES if path.suffix in CODE_SUFFIXES]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def matches(pattern: str, paths: list[Path]) -> list[str]:
    """`file:line: text` of each line that matches the pattern; this file is skipped."""
    found = re.compile(pattern)
    return [
        f"{name_of(path)}:{number}: {line.strip()[:100]}"
        for path in paths
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if found.search(line)
    ]


def test_files_stay_short() -> None:
    long = {
        name_of(path): lines
        for path in CODE
        if (lines := len(path.read_text().splitlines())) > FILE_LINES_MAX
    }
    assert not long, f"over {FILE_LINES_MAX} lines, split by responsibility: {long}"


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and length in lines of each function with its signature, its docstring not counted."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = lines_of(node.body[0]) if ast.get_docstring(node) is not None else 0
            yield node.name, lines_of(node) - docstring


def lines_of(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


RUST_OPAQUE = re.compile(
    r"""//[^\n]*"""
    r"""|/\*.*?\*/"""
    r"""|b?r(?P<hashes>\#*)".*?"(?P=hashes)"""
    r"""|b?"(?:\\.|[^"\\])*\""""
    r"""|b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\\n])'""",
    re.DOTALL,
)
RUST_FUNCTION = re.compile(r"\bfn\s+(\w+)")
DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def rust_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and length in lines of each function with a body, found by its braces; signature too."""
    # Comments and literals may hold braces: blank them out, but keep the lines.
    bare = RUST_OPAQUE.sub(lambda found: "\n" * found.group().count("\n"), text)
    for found in RUST_FUNCTION.finditer(bare):
        depth = 0
        start = None
        for at in range(found.end(), len(bare)):
            if depth == 0 and bare[at] == ";":
                break  # a declaration without a body
            if depth == 0 and bare[at] == "{":
                start = at
            depth += DEPTH.get(bare[at], 0)
            if depth == 0 and start is not None:
                yield found.group(1), bare.count("\n", found.start(), at) + 1
                break


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fn a() {\n  x;\n}\n", [("a", 3)]),
        ("trait T { fn a(&self); fn b() { '{' } }", [("b", 1)]),
        ("fn a() {\n  let s = \"}\";\n  // }\n  let c = b'}';\n}", [("a", 5)]),
        ("fn a<'a>(x: &'a str) -> [u8; 4] {\n}", [("a", 2)]),
        ("fn a(\n  x: u8,\n) {\n}", [("a", 4)]),
    ],
)
def test_rust_functions_are_found(text: str, expected: list[tuple[str, int]]) -> None:
    assert list(rust_functions(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def a(): pass\n", [("a", 1)]),
        ("def a(\n    x,\n    y,\n):\n    return x\n", [("a", 5)]),
        ('async def a():\n    """Do.\n\n    It.\n    """\n    return 1\n', [("a", 2)]),
        ('def a():\n    """Do."""\n', [("a", 1)]),
    ],
)
def test_python_functions_are_measured(text: str, expected: list[tuple[str, int]]) -> None:
    assert list(python_functions(text)) == expected


def test_functions_stay_short() -> None:
    readers = {".py": python_functions, ".rs": rust_functions}
    long = [
        f"{name_of(path)}: {function} has {lines} lines"
        for path in CODE
        if path.suffix in readers
        for function, lines in readers[path.suffix](path.read_text())
        if lines > FUNCTION_LINES_MAX
    ]
    assert not long, f"over {FUNCTION_LINES_MAX} lines: {long}"


def test_code_has_no_unfinished_markers() -> None:
    unfinished = matches(
        r"\b(TODO|FIXME|XXX|HACK)\b|\b(todo|unimplemented)!\(|NotImplementedError", CODE
    )
    assert not unfinished


# Disk faults need root; the other modules need programs that have to be downloaded.
MAY_SKIP = tuple(
    ROOT / "tests" / name
    for name in ("e2e/disks.py", "fetched.py", "keycloak/server.py", "kube/go_programs.py")
)


def test_no_test_is_skipped() -> None:
    code = [path for path in CODE if path not in MAY_SKIP]
    skipped = matches(r"#\[ignore|pytest\.(mark\.)?(skip|xfail|importorskip)|\bassert True\b", code)
    assert not skipped


def test_no_test_sleeps() -> None:
    tests = [path for path in CODE if "tests" in path.parts or path.name == "tests.rs"]
    sleeps = matches(r"\btime\.sleep\(|asyncio\.sleep\((?!0\))|thread::sleep", tests)
    assert not sleeps, "wait for the event instead"


def test_file_names_are_specific() -> None:
    vague = [
        name_of(path)
        for path in FILES
        if any(
            SAYS_NOTHING.match(part.split(".")[0]) for part in path.relative_to(ROOT).parts if part
        )
    ]
    assert not vague


def test_no_machine_specific_path_or_mirror_is_named() -> None:
    texts = [path for path in FILES if path.name not in LOCK_FILES]
    assert not matches(r"(?<![\w.])/(work|tmp|root|home/\w+)/", texts)
    assert not matches(r"https?://[a-z0-9.-]*(pypi|npmjs|crates|maven|debian)\.", texts)


def test_every_module_has_a_docstring() -> None:
    silent = [
        name_of(path)
        for path in CODE
        if path.suffix == ".py" and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    silent += [
        name_of(path)
        for path in CODE
        if path.suffix == ".rs" and not path.read_text().startswith("//!")
    ]
    assert not silent


def undocumented(node: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Public functions, classes and methods without a docstring."""
    for part in node.body:
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not part.name.startswith("_"):
            if ast.get_docstring(part) is None:
                yield part.name
            if isinstance(part, ast.ClassDef):
                yield from undocumented(part)


def test_everything_public_has_a_docstring() -> None:
    silent = [
        f"{name_of(path)}: {name}"
        for path in CODE
        if path.suffix == ".py" and name_of(path).startswith(("python/", "scripts/", "bench/"))
        for name in undocumented(ast.parse(path.read_text()))
    ]
    assert not silent


def test_every_crate_inherits_the_workspace_lints() -> None:
    for manifest in [
        path for path in FILES if path.name == "Cargo.toml" and "crates" in path.parts
    ]:
        assert "[lints]\nworkspace = true" in manifest.read_text(), name_of(manifest)


@pytest.mark.parametrize(
    "patch", sorted((ROOT / "crates/sim/broken").glob("*.patch")), ids=lambda patch: patch.stem
)
def test_patches_of_broken_rules_apply(patch: Path) -> None:
    check = ["git", "apply", "--check", str(patch)]
    refused = subprocess.run(check, cwd=ROOT, capture_output=True, text=True).stderr
    assert not refused, f"record {name_of(patch)} again: {refused}"


@pytest.mark.parametrize("crate", PURE_CRATES)
def test_pure_crates_ban_clocks_sockets_and_files(crate: str) -> None:
    banned = (ROOT / "crates" / crate / "clippy.toml").read_text()
    for path in (
        "std::time::Instant::now",
        "std::time::SystemTime::now",
        "std::net::TcpStream",
        "std::fs::File",
    ):
        assert path in banned, f"crates/{crate}/clippy.toml does not ban {path}"


EXAMPLES = {
    **dict.fromkeys(("competing-consumers", "fan-out", "request-reply"), "test_examples.py"),
    "sensor-pipeline": "test_sensor_pipeline.py",
}
"""The test module in `tests/e2e` that runs each example."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_complete_and_tested(example: str) -> None:
    folder, test = ROOT / "examples" / example, EXAMPLES[example]
    present = {path.name for path in folder.iterdir()}
    assert {"README.md", "addresses.yaml"} <= present
    assert any(name.endswith(".py") for name in present)
    # Messaging examples exist in two languages, the pipeline example in Python.
    assert any(name.endswith(".js") for name in present) or "pipeline.yaml" in present
    assert example in (ROOT / "tests/e2e" / test).read_text()


def test_every_example_is_listed_here() -> None:
    folders = {path.parent.name for path in FILES if path.match("examples/*/README.md")}
    assert folders == set(EXAMPLES)
