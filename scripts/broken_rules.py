"""`make broken-rules`: the simulator finds each rule that is broken on purpose.

Each patch in `crates/sim/broken` takes one rule out of the node; its first paragraph names the
rule. A patch is applied to a copy of the tree, and seeds of both profiles run until the first
violation. The seed must pass without the patch, so the patch is the cause. A rule that no seed
finds fails the run, as does a patch that no longer applies: record it again, and update decision
52.

Names of patches narrow a run: `scripts/broken_rules.py --seeds 100 clean-ends`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "crates" / "sim" / "broken"
BUILD = ROOT / "build" / "broken-rules"
TREE = BUILD / "tree"
TARGET = BUILD / "target"
SIMULATOR = TARGET / "checked" / "enmasse-sim"
# All members of the workspace, or Cargo refuses it.
SOURCES = ("Cargo.toml", "Cargo.lock", "crates", "bench/forwarder", "bench/journal")
SEEDS = 5000
SEED = re.compile(r"^seed (\d+) of the profile (\w+) failed$", re.MULTILINE)
# A violation is a line of the history; a failed assertion is a panic.
MESSAGE = re.compile(r"^ *\d+ VIOLATION (.*)$|panicked at [^\n]*\n(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """A violation, and the run that repeats it."""

    seed: int
    profile: str
    message: str


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git at the root of the repository."""
    return subprocess.run(
        ("git", *arguments), cwd=ROOT, check=False, capture_output=True, text=True
    )


def restore_tree() -> None:
    """Make the copy equal to the sources. Cargo sees by its time that a file was restored, so a
    restored file gets a new one, and an unchanged file keeps its own."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", *SOURCES)
    wanted = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    for name in wanted:
        source, copy = ROOT / name, TREE / name
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    for copy in [path for path in TREE.rglob("*") if path.is_file()]:
        if str(copy.relative_to(TREE)) not in wanted:
            copy.unlink()


def applies(patch: Path) -> str | None:
    """Why a patch does not apply to the sources; `None`: it does."""
    result = git("apply", "--check", str(patch))
    return result.stderr.strip() if result.returncode else None


def rule_of(patch: Path) -> str:
    """The rule that a patch takes out: its first paragraph."""
    return " ".join(patch.read_text(encoding="utf-8").split("\n\n", 1)[0].split())


def build() -> None:
    """Build the simulator of the copy."""
    command = ("cargo", "build", "--quiet", "--profile", "checked", "--locked", "-p", "enmasse-sim")
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "CARGO_INCREMENTAL": "1"}
    result = subprocess.run(
        command, cwd=TREE, env=environment, check=False, capture_output=True, text=True
    )
    if result.returncode:
        sys.exit(f"the simulator does not compile:\n{result.stderr}")


def simulate(*arguments: str) -> Found | None:
    """The first violation of a run."""
    result = subprocess.run(
        (SIMULATOR, *arguments), capture_output=True, text=True, errors="replace", check=False
    )
    if result.returncode == 0:
        return None
    seed, message = SEED.search(result.stderr), MESSAGE.search(result.stderr)
    if seed is None:
        sys.exit(f"the simulator failed without a seed:\n{result.stderr[-2000:]}")
    text = (message[1] or message[2]) if message else result.stderr.strip().splitlines()[-2]
    return Found(int(seed[1]), seed[2].lower(), text)


def find(patch: Path, seeds: int) -> Found | None:
    """The first violation with a rule broken."""
    restore_tree()
    result = git("apply", f"--directory={TREE.relative_to(ROOT)}", str(patch))
    if result.returncode:
        sys.exit(f"{patch.name} does not apply to the copy: {result.stderr}")
    build()
    found = simulate("0", str(seeds))
    where = f"{found.profile} seed {found.seed}: {found.message}" if found else "not found"
    print(f"{patch.stem}\n  {rule_of(patch)}\n  {where}", flush=True)
    return found


def other_causes(found: dict[str, Found]) -> list[str]:
    """The violations that the unpatched simulator reports as well."""
    restore_tree()
    build()
    again = ((name, one, simulate(str(one.seed), "1", one.profile)) for name, one in found.items())
    return [
        f"{name}: seed {one.seed} fails without the patch, too" for name, one, same in again if same
    ]


def main() -> None:
    """Break one rule after another; exit with the rules that no seed finds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patches", nargs="*", help="names of patches; default: all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"default: {SEEDS}")
    options = parser.parse_args()
    names = options.patches or sorted(patch.stem for patch in PATCHES.glob("*.patch"))
    patches = [PATCHES / f"{name}.patch" for name in names]
    stale = [f"{patch.name} does not apply: {why}" for patch in patches if (why := applies(patch))]
    if stale:
        sys.exit("\n".join(stale))
    results = {patch.stem: find(patch, options.seeds) for patch in patches}
    found = {name: one for name, one in results.items() if one}
    failures = [
        f"{name}: no seed below {options.seeds} finds it" for name in results.keys() - found
    ]
    failures += other_causes(found)
    if failures:
        sys.exit("\n".join(failures))
    print(f"the simulator finds all {len(patches)} broken rules")


if __name__ == "__main__":
    main()
