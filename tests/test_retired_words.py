"""Retired words stay retired: a table of names by package, and phrases, with their replacements."""

import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Part of the repository -> retired names, each with the term of docs/glossary.md. A name matches a
# whole word of an identifier: `shelf` also finds `shelf_of`, `Shelf` also finds `TopicShelf`.
RETIRED: dict[str, dict[str, str]] = {
    "crates/router": {
        "owed": "settlement target",
        "duty": "completion",
        "errand": "in-flight write",
        "echo": "pending duplicate",
        "shelf": "open queue",
        "shelve": "open a queue",
        "laggard": "slow consumer",
        "tire": "mark not ready",
        "weigh": "update back-pressure",
        "tend": "process",
        "touched": "dirty",
        "oust": "steal",
        "forgo": "skip a copy",
        "forsake": "release",
        "decoy": "dummy credentials",
        "newcomer": "new login",
        "guest": "authenticated peer",
    },
    "crates/router/src/core": {"port": "attachment", "figures": "statistics", "told": "notified"},
    "crates/router/src/shard": {"port": "attachment", "figures": "statistics", "thief": "theft"},
    "crates/journal": {
        "walker": "cursor",
        "figures": "statistics",
        "mend": "repair",
        "bury": "dead letter",
        "lapse": "hide an expired message",
        "told": "notified",
    },
    "crates/node": {
        "doze": "park",
        "bell": "thread waker",
        "happening": "event",
        "newcomer": "accepted socket",
        "seat": "worker slot",
        "linger": "half-close",
        "errand": "targeted operation",
        "admittance": "connection limits",
        "obey": "run a command",
        "told": "notified",
        "heard": "received",
        "figures": "statistics",
        "guest": "authenticated peer",
    },
    "crates/amqp": {"told": "notified", "attention": "pending work", "astray": "unattached"},
    "crates/load": {"pace": "send schedule"},
    "crates/sim": {"figures": "statistics", "shelf": "recovered queue"},
    "python/enmasse/api": {"figures": "statistics", "trouble": "problem"},
    "python/enmasse/cli": {"figures": "statistics", "mend": "remedy", "trouble": "problem"},
    "python/enmasse/control": {"figures": "statistics", "mend": "remedy"},
    "python/enmasse/engines": {"figures": "statistics", "trouble": "problem"},
    "python/enmasse/pipeline": {
        "told": "notified, or on_batch",
        "said": "message, or error",
        "heard": "received",
        "came": "received, or count_messages",
        "became": "count_readings",
        "judge": "parse, verify or report",
        "judged": "parsed",
        "taken": "acquired, or locked",
        "kept": "stored, or retained",
        "place": "path, offset or position",
        "figure": "metric",
        "teller": "alert sender",
        "ending": "failure",
        "death": "failure of Spark",
        "mend": "remedy",
        "trouble": "failure",
        "troubles": "failures",
        "anew": "again",
        "beside": "resolve",
        "there": "existing",
        "patience": "retry",
        "patiently": "with retry",
        "tidy": "maintain",
        "noted": "recorded",
        "waits": "pending",
        "lies": "matches",
    },
}

# Phrases of comments and texts, whole words in any part.
PHRASES = {
    "can be had": "is available",
    "laggard": "slow consumer",
    "newcomer": "new connection",
    "what became of": "the outcome of",
    "what becomes of": "the outcome of",
    "lets nobody in": "does not admit anonymous clients",
    "somebody else": "another party",
    "told apart": "distinguished",
    "looked after": "processed",
    "in whatever state": "in any state",
    "nobody": "no client, no consumer",
    "somebody": "a client, a consumer",
    "whoever": "a client that",
    "anew": "again",
    "the mend": "the remedy",
}
PHRASE_FOLDERS = ("crates",)

# Phrases of string literals: error texts, log records, help.
TEXT_PHRASES = PHRASES | {
    "leave it out": "omit it",
    "is to be": "must be",
    "told": "notified",
    "anybody": "any client",
}

# Modules of test helpers, with their names now.
MODULES = {
    "answering": "http_servers",
    "authenticating": "authentication_server",
    "backfilling": "backfill_runs",
    "controlled": "managed_store",
    "cutting": "cuttable_proxy",
    "dying": "kill_at_call",
    "exchanging": "proton_client",
    "issuing": "token_issuer",
    "measured": "silver_readings",
    "obeying": "cli_platform",
    "piping": "pipeline_runs",
    "publishing": "published_streams",
    "running": "platform_process",
    "served": "asgi_platform",
    "showing": "stepped_manager",
    "supervising": "pipeline_supervisor",
    "transacting": "proton_transactions",
    "writing": "resource_writer",
}

# Phrases of the comments and texts of the pipeline.
PYTHON_PHRASES = {
    "nobody": "no process, or passive voice",
    "whoever": "the process that",
    "what became of": "the result of",
    "what becomes of": "the result of",
    "made anew": "rebuilt, or created again",
    "cut off": "interrupted",
    "under way": "in progress",
    "for ever": "permanent",
    "goes on": "continues",
    "go on": "continue",
    "is said": "is reported",
    "is told": "is reported",
    "so many": "this many, or at most N",
    "so often": "the interval",
}

# Terms that contain a retired word and stay.
ALLOWED = re.compile(
    r"dead[ _-]?letters?|late[ _-]data|ring[ _-]buffers?"
    r"|\b(?:TCP|free|host and) ports?\b|transport|without_port|linger_ms|export",
    re.IGNORECASE,
)
PYTHON_ALLOWED = {"PORT_TAKEN"}
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
RUST_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*\"""", re.DOTALL
)


def tracked(folder: str) -> list[Path]:
    suffix = "py" if folder.startswith("python/") else "rs"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"{folder}/**.{suffix}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def code_of(text: str) -> str:
    """Rust code without comments and string literals; lines are kept."""
    return RUST_TEXT.sub(lambda found: "\n" * found.group().count("\n"), text)


def comments_of(text: str) -> str:
    """The line comments of Rust code, each run of them as one line of prose."""
    runs: list[str] = []
    before = -2
    for number, line in enumerate(text.splitlines()):
        comment = line.strip()
        if comment.startswith("//"):
            words = comment.lstrip("/!").strip()
            if number == before + 1 and runs:
                runs[-1] += " " + words
            else:
                runs.append(words)
            before = number
    return "\n".join(runs)


def python_tokens(text: str, kind: int) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == kind]


def prose_of(text: str) -> str:
    """The comments and string literals of Python code, each as one line."""
    parts = python_tokens(text, tokenize.COMMENT) + python_tokens(text, tokenize.STRING)
    return "\n".join(" ".join(part.split()) for part in parts)


def texts_of(text: str) -> str:
    """The string literals of Rust code that are more than a word, one a line."""
    literals = (found.group() for found in RUST_TEXT.finditer(text))
    texts = (re.sub(r"\\\n\s*", "", one) for one in literals if not one.startswith(("//", "/*")))
    return "\n".join(one.replace("\n", " ") for one in texts if " " in one)


def words_of(identifier: str) -> set[str]:
    return {word.lower() for word in WORDS.findall(identifier)}


def with_retired_words(names: Iterable[str], retired: dict[str, str]) -> set[str]:
    """Identifiers with a retired word, singular or plural, in them."""
    forms = {form for word in retired for form in (word, f"{word}s")}
    return {name for name in names if words_of(name) & forms}


def retired_names(text: str, retired: dict[str, str]) -> set[str]:
    """Identifiers of Rust code with a retired word."""
    return with_retired_words(IDENTIFIER.findall(ALLOWED.sub("", code_of(text))), retired)


def retired_python_names(text: str, retired: dict[str, str]) -> set[str]:
    """Identifiers of Python code with a retired word."""
    names = set(python_tokens(text, tokenize.NAME)) - PYTHON_ALLOWED
    return with_retired_words(names, retired)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("struct TopicShelf;", {"TopicShelf"}),
        ("let shelf_of = 1; // shelf", {"shelf_of"}),
        ('let a = "a shelf";', set()),
        ("fn hand_dead_letter() {}", set()),
        ("let shelves = bookshelf;", set()),
    ],
)
def test_retired_rust_names_are_found(text: str, expected: set[str]) -> None:
    assert retired_names(text, {"shelf": "open queue", "letter": "request"}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def told(): ...", {"told"}),
        ("self._told = 1  # told", {"_told"}),
        ('a = "told"', set()),
        ("untold = bold", set()),
    ],
)
def test_retired_python_names_are_found(text: str, expected: set[str]) -> None:
    assert retired_python_names(text, {"told": "notified"}) == expected


@pytest.mark.parametrize("part", RETIRED)
def test_no_identifier_has_a_retired_word(part: str) -> None:
    retired_in = retired_python_names if part.startswith("python/") else retired_names
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked(part)
        for name in retired_in(path.read_text(), RETIRED[part])
        # Test names are sentences, so the terms of the code do not apply to them.
        if name.count("_") < 4
    }
    assert not found, f"see docs/glossary.md: {sorted(found)}"


def phrases_in(phrases: dict[str, str], prose: Callable[[str], str]) -> list[str]:
    pattern = re.compile(r"\b(" + "|".join(phrases) + r")s?\b", re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT)}: ..{line[max(0, hit.start() - 30) : hit.end() + 30]}.."
        for folder in PHRASE_FOLDERS
        for path in tracked(folder)
        for line in prose(path.read_text()).splitlines()
        for hit in pattern.finditer(line)
    ]


def test_no_comment_has_a_retired_phrase() -> None:
    found = phrases_in(PHRASES, comments_of)
    assert not found, f"see docs/glossary.md: {found}"


def test_no_string_literal_has_a_retired_phrase() -> None:
    found = phrases_in(TEXT_PHRASES, texts_of)
    assert not found, f"see docs/glossary.md: {found}"


@pytest.mark.parametrize("name", MODULES)
def test_no_helper_module_has_a_retired_name(name: str) -> None:
    assert not (ROOT / "tests" / f"{name}.py").exists(), f"it is {MODULES[name]}.py now"
    assert (ROOT / "tests" / f"{MODULES[name]}.py").exists()


def test_pipeline_prose_has_no_retired_phrase() -> None:
    pattern = re.compile(r"\b(" + "|".join(PYTHON_PHRASES) + r")s?\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}: ..{line[max(0, hit.start() - 30) : hit.end() + 30]}.."
        for path in tracked("python/enmasse/pipeline")
        for line in prose_of(path.read_text()).splitlines()
        for hit in pattern.finditer(line)
    ]
    assert not found, f"see docs/glossary.md: {found}"
