"""A short run against a platform, and one that must report losses."""

from pathlib import Path

import pytest

from prove.judge import Verdict
from prove.killing import prove
from prove.report import summary

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_cause_no_loss_and_no_duplicate(tmp_path: Path, seed: int) -> None:
    run = prove(tmp_path, 30, seed)
    assert run.good, summary(run)
    assert run.kills
    assert run.counts[Verdict.OK] > 1_000, "the load delivered too few messages"


def test_kill_with_memory_durability_is_reported_as_loss(tmp_path: Path) -> None:
    run = prove(tmp_path, 20, 1, durability="memory")
    assert run.kills
    assert run.counts[Verdict.LOST] > 0
    assert run.counts[Verdict.DUPLICATE] == 0, summary(run)
