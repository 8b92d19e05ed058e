"""The Makefile: incremental builds and stages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMPILER = """#!/bin/sh
echo compiled >> compiled.log
touch python/enmasse/_native.abi3.so
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with one source of the native core and a compiler that counts its runs."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder in (".venv/bin", ".cache/setup", "python/enmasse", "scripts", "crates/node/src"):
        (tmp_path / folder).mkdir(parents=True)
    files = "scripts/setup.sh pyproject.toml requirements.lock Cargo.toml Cargo.lock"
    for name in (*files.split(), "crates/node/src/lib.rs", ".cache/setup/run"):
        (tmp_path / name).touch()
    compiler = tmp_path / ".venv/bin/maturin"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    return tmp_path


def builds(tree: Path) -> int:
    """Build the native core; return the number of compilations so far."""
    environment = {name: one for name, one in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(["make", "build"], cwd=tree, check=True, env=environment, capture_output=True)
    return len((tree / "compiled.log").read_text().splitlines())


def test_an_unchanged_tree_is_not_compiled_again(tree: Path) -> None:
    assert [builds(tree), builds(tree)] == [1, 1]


def test_changed_or_removed_source_or_missing_module_triggers_a_build(tree: Path) -> None:
    assert builds(tree) == 1
    built = (tree / ".cache/setup/native").stat().st_mtime
    os.utime(tree / "crates/node/src/lib.rs", (built + 1, built + 1))
    assert builds(tree) == 2
    os.utime(tree / "crates/node/src/lib.rs", (built - 1, built - 1))
    os.utime(tree / ".cache/setup/native", (built - 1, built - 1))
    (tree / "crates/node/src/lib.rs").unlink()
    assert builds(tree) == 3
    (tree / "python/enmasse/_native.abi3.so").unlink()
    assert builds(tree) == 4
    assert builds(tree) == 4


def test_stages_stop_at_the_first_failure_and_report_durations(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("good:\n\t@true\nbad:\n\t@exit 3\nlast:\n\t@touch ran\n")
    script = ROOT / "scripts" / "stages.sh"
    environment = {name: one for name, one in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        [script, "good", "bad", "last"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, "make's own status for a failed recipe"
    durations = done.stdout.split("Duration of each stage:\n")[1].splitlines()
    assert [line.split()[0] for line in durations] == ["good", "bad"]
    assert durations[1].endswith("(failed)")
    assert not (tmp_path / "ran").exists()


PURE = ("base", "plan", "resources")


def recipe(*arguments: str) -> str:
    """Return what make would run in a clean clone."""
    environment = {name: one for name, one in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-n", "-W", "scripts/setup.sh", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, check=True, env=environment, capture_output=True, text=True
    )
    return done.stdout


def test_tests_without_the_core_compile_nothing_and_install_no_servers() -> None:
    pure = recipe("test-python", "T=tests/plan tests/base/test_clock.py")
    assert "setup.sh unit" in pure
    assert "setup.sh dev" not in pure and "maturin" not in pure
    for folders in ("tests", "tests/plan tests/control", "tests/messaging"):
        assert "setup.sh dev" in recipe("test-python", f"T={folders}")


def test_tests_without_the_core_do_not_import_it() -> None:
    folders = [str(ROOT / "tests" / name) for name in PURE]
    program = (
        "import sys, pytest; sys.modules['enmasse._native'] = None\n"
        f"sys.exit(pytest.main(['--collect-only', '-qq', *{folders!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (
        f"PURE := {' '.join(f'tests/{name}%' for name in PURE)}" in (ROOT / "Makefile").read_text()
    )
