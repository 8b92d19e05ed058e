"""The memory limit of a process, and shares of it."""

from pathlib import Path

import pytest

from enmasse.base.memory import memory_bytes, share_bytes

MIB = 1 << 20


def groups(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    """Write the files that describe the control groups of a process."""
    for name, text in {"proc/self/cgroup": cgroup, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_smallest_limit_among_the_cgroup_and_its_parents_applies(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/system.slice/memory.max": f"{700 * MIB}\n",
        "sys/fs/cgroup/system.slice/enmasse.service/memory.max": "max\n",
    }
    assert memory_bytes(groups(tmp_path, "0::/system.slice/enmasse.service\n", files)) == 700 * MIB


def test_cgroup_v1_memory_limit_applies(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{300 * MIB}\n"}
    cgroup = "5:cpu:/other\n4:memory:/box\n0::/\n"
    assert memory_bytes(groups(tmp_path, cgroup, files)) == 300 * MIB


def test_memory_of_the_machine_applies_without_a_cgroup_limit(tmp_path: Path) -> None:
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
def test_memory_setting_is_a_percentage_or_a_size(text: str, expected: int) -> None:
    assert share_bytes(text, 1000 * MIB) == expected


@pytest.mark.parametrize("text", ["", "lots", "100%", "-1", "1.5GiB", "5 apples"])
def test_invalid_memory_setting_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="such as 512MiB"):
        share_bytes(text, 1000 * MIB)
