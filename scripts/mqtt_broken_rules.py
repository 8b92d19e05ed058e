"""Breaks one rule of MQTT after another in crates/mqtt and expects the test of the rule to fail.

`make mqtt-broken-rules` takes minutes: it compiles the crate once for each rule. `ARGS=N` begins
with the rule of that number. It edits the sources in place and restores them.
docs/mqtt-conformance.md lists the rules.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "crates/mqtt/src"
TESTS = ROOT / "crates/mqtt/tests"
EDITS = TESTS / "broken_rules.txt"


@dataclass(frozen=True)
class Broken:
    """A statement, the edit that breaks it, and the test that must fail."""

    statement: str
    file: str
    old: str
    new: str
    test: str


def broken_rules() -> list[Broken]:
    """All edits, in the order of the file."""
    lines = EDITS.read_text().splitlines()
    fields = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [Broken(*(text.replace("\\n", "\n") for text in one)) for one in fields]


def failing(broken: Broken) -> set[str]:
    """The tests that fail with the rule broken; empty also if it does not compile."""
    path = SOURCE / broken.file
    text = path.read_text()
    if text.count(broken.old) != 1:
        raise SystemExit(f"{broken.statement}: {broken.file} must have the text once: {broken.old}")
    module = broken.test.partition("::")[0]
    target = "codec" if (TESTS / "codec" / f"{module}.rs").exists() else "machine"
    command = ["cargo", "test", "--release", "-q", "-p", "enmasse-mqtt", "--test", target]
    try:
        path.write_text(text.replace(broken.old, broken.new))
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    finally:
        path.write_text(text)
    if "could not compile" in done.stderr:
        raise SystemExit(f"{broken.statement}: {done.stderr}")
    return set(re.findall(r"^    (\w+::\w+)$", done.stdout, re.MULTILINE))


def main() -> int:
    """Break each rule; 1 if a test did not notice."""
    missed = 0
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for broken in broken_rules()[first - 1 :]:
        found = failing(broken)
        noticed = broken.test in found
        missed += not noticed
        result = "fails" if noticed else f"DOES NOT FAIL (but {sorted(found)})"
        sys.stdout.write(f"{broken.statement}: {broken.test} {result}\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
