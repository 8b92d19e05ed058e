"""A short run of the real thing, and one that has to fail."""

from pathlib import Path

import pytest

from prove.judge import Verdict
from prove.killing import prove
from prove.report import summary

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_or_doubled_by_kills(tmp_path: Path, seed: int) -> None:
    run = prove(tmp_path, 30, seed)
    assert run.good, summary(run)
    assert run.kills
    assert run.counts[Verdict.OK] > 1_000, "the load did something"


def test_losses_are_found_where_messages_go_with_the_process(tmp_path: Path) -> None:
    run = prove(tmp_path, 20, 1, durability="memory")
    assert run.kills
    assert run.counts[Verdict.LOST] > 0
    assert run.counts[Verdict.DUPLICATE] == 0, summary(run)
