"""Retired words stay retired: a table of names by package, and phrases, with their replacements."""

import re
import subprocess
from collections.abc import Callable
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
    },
    "crates/amqp": {"told": "notified", "attention": "pending work", "astray": "unattached"},
    "crates/sim": {"figures": "statistics", "shelf": "recovered queue"},
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

# Terms that contain a retired word and stay.
ALLOWED = re.compile(
    r"dead[ _-]?letters?|late[ _-]data|ring[ _-]buffers?"
    r"|\b(?:TCP|free|host and) ports?\b|transport|without_port|linger_ms|export",
    re.IGNORECASE,
)
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
RUST_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*\"""", re.DOTALL
)


def tracked(folder: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"{folder}/**.rs"],
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


def words_of(identifier: str) -> set[str]:
    return {word.lower() for word in WORDS.findall(identifier)}


def retired_names(text: str, retired: dict[str, str]) -> set[str]:
    """Identifiers of Rust code with a retired word, singular or plural, in them."""
    forms = {form for word in retired for form in (word, f"{word}s")}
    names = set(IDENTIFIER.findall(ALLOWED.sub("", code_of(text))))
    return {name for name in names if words_of(name) & forms}


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
def test_names_are_found(text: str, expected: set[str]) -> None:
    assert retired_names(text, {"shelf": "open queue", "letter": "request"}) == expected


@pytest.mark.parametrize("part", RETIRED)
def test_no_name_is_retired(part: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked(part)
        for name in retired_names(path.read_text(), RETIRED[part])
        # The sentences that name tests are not held to the terms of the code.
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


def test_no_phrase_of_a_comment_is_retired() -> None:
    found = phrases_in(PHRASES, comments_of)
    assert not found, f"see docs/glossary.md: {found}"


@pytest.mark.parametrize("name", MODULES)
def test_no_module_is_retired(name: str) -> None:
    assert not (ROOT / "tests" / f"{name}.py").exists(), f"it is {MODULES[name]}.py now"
    assert (ROOT / "tests" / f"{MODULES[name]}.py").exists()
