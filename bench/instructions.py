"""`make bench-instructions AGAINST=DIR`: instructions a message, compared with another checkout.

Valgrind counts them, so other load on the machine does not matter. The count covers the work of a
shard with its protocol (`crates/router/examples/shard_cost.rs`), without sockets and without the
thread of the journal. It excludes caches, branches and system calls:
`make bench-baseline` measures rates.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOADS = ("presettled", "unsettled", "durable")
COUNTED = ("serve", "answer")
"""Functions of the example within which instructions count."""
RATIO_MAX = 1.02
"""Ratio to the other checkout above which a load counts as slower."""


class Unavailable(Exception):
    """A checkout cannot be measured; the text is one line for the user."""


def build(checkout: Path) -> Path:
    """Build the example of a checkout, and return its path."""
    command = ["cargo", "build", "--release", "--locked", "--quiet"]
    command += ["-p", "enmasse-router", "--example", "shard_cost"]
    if subprocess.run(command, cwd=checkout, check=False).returncode != 0:
        raise Unavailable(f"{checkout}: the example shard_cost cannot be built")
    target = Path(os.environ.get("CARGO_TARGET_DIR", checkout / "target"))
    # A shared target folder holds the example of one checkout at a time.
    copy = Path(tempfile.mkdtemp(prefix="enmasse-bench-")) / "shard_cost"
    return Path(shutil.copy2(target / "release/examples/shard_cost", copy))


def instructions(example: Path, load: str, messages: int) -> float:
    """Instructions a message of one load."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command += [f"--toggle-collect=shard_cost::{name}*" for name in COUNTED]
    done = subprocess.run(
        [*command, str(example), load, str(messages)], capture_output=True, text=True, check=False
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found or int(found[1]) == 0:
        lines = done.stderr.strip().splitlines()
        raise Unavailable(f"{load}: {lines[-1] if lines else 'nothing was counted'}")
    return int(found[1]) / messages


def main() -> int:
    """Count, print a table, and return 1 if a load needs more than the other checkout."""
    parser = argparse.ArgumentParser(prog="make bench-instructions", description=__doc__)
    parser.add_argument("--against", type=Path, required=True, help="the other checkout")
    parser.add_argument("--messages", type=int, default=60_000, help="messages of each load")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        parser.error("valgrind is missing: install the package of that name")
    slower = False
    examples = [build(checkout) for checkout in (ROOT, given.against.resolve())]
    try:
        print("| load | this checkout | baseline | ratio |\n| --- | --- | --- | --- |")
        for load in LOADS:
            ours, theirs = (instructions(example, load, given.messages) for example in examples)
            slower = slower or ours / theirs > RATIO_MAX
            print(f"| {load} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.3f} |", flush=True)
    finally:
        for example in examples:
            shutil.rmtree(example.parent)
    return int(slower)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unavailable as reason:
        sys.exit(f"bench-instructions: {reason}")
