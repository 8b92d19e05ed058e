"""The memory that a process may use, and shares of it."""

from pathlib import Path

import pytest

from enmasse.base.memory import memory_bytes, share_bytes

MIB = 1 << 20


def groups(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    """Write the files by which a process knows its control groups."""
    for name, text in {"proc/self/cgroup": cgroup, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_least_bound_of_the_group_and_those_above_it_counts(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/system.slice/memory.max": f"{700 * MIB}\n",
        "sys/fs/cgroup/system.slice/enmasse.service/memory.max": "max\n",
    }
    assert memory_bytes(groups(tmp_path, "0::/system.slice/enmasse.service\n", files)) == 700 * MIB


def test_the_memory_controller_of_version_1_counts_too(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{300 * MIB}\n"}
    cgroup = "5:cpu:/other\n4:memory:/box\n0::/\n"
    assert memory_bytes(groups(tmp_path, cgroup, files)) == 300 * MIB


def test_without_a_bound_it_is_that_of_the_machine(tmp_path: Path) -> None:
    machine = memory_bytes(tmp_path)
    assert machine > 100 * MIB
    unbounded = {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
    assert memory_bytes(groups(tmp_path, "4:memory:/\n", unbounded)) == machine


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("25%", 250 * MIB),
        ("1 %", 10 * MIB),
        ("4096", 4096),
        ("512MiB", 512 * MIB),
        ("512M", 512 * MIB),
        ("2gb", 2048 * MIB),
    ],
)
def test_a_share_is_of_the_memory_and_a_size_is_itself(text: str, expected: int) -> None:
    assert share_bytes(text, 1000 * MIB) == expected


@pytest.mark.parametrize("text", ["", "lots", "100%", "-1", "1.5GiB", "5 apples"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 512MiB"):
        share_bytes(text, 1000 * MIB)
