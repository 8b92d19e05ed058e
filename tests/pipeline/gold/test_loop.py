"""The schedule of the gold loop and its errors, with a fake query."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError

from doubles import TestClock
from enmasse.base.errors import Conflict, Unavailable
from enmasse.pipeline.gold.loop import LONG_S, GoldLoop
from enmasse.pipeline.gold.query import GoldQuery

pytestmark = pytest.mark.timeout(30)


class Query:
    """Records its calls; `waiting` is the number of steps for the readings that silver has."""

    def __init__(self) -> None:
        self.waiting = 0
        self.calls: list[str] = []
        self.error: Exception | None = None

    def advance(self) -> Iterator[None]:
        if self.error is not None:
            raise self.error
        while self.waiting:
            self.calls.append("step")
            self.waiting -= 1
            yield

    def merge_long(self) -> None:
        self.calls.append("long")

    def maintain(self, keep_ms: int) -> None:
        self.calls.append(f"maintain {keep_ms}")

    def catch_up(self) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append("all")

    def take(self) -> list[str]:
        found, self.calls = self.calls, []
        return found


def loop(query: Query, clock: TestClock) -> GoldLoop:
    played = cast(GoldQuery, query)
    return GoldLoop(played, clock, every_ms=30_000, compact_every=3, keep_ms=5)


def test_long_windows_merge_every_five_minutes_and_files_after_three_steps() -> None:
    query, clock = Query(), TestClock()
    gold = loop(query, clock)
    gold.turn()
    assert query.take() == ["long"]
    query.waiting = 2
    gold.turn()
    assert query.take() == ["step", "step"]
    query.waiting = 1
    gold.turn()
    assert query.take() == ["step", "maintain 5"]
    clock.advance(LONG_S)
    gold.turn()
    assert query.take() == ["long"]


def test_failure_lasts_until_a_turn_succeeds(caplog: Any) -> None:
    query, clock = Query(), TestClock()
    gold = loop(query, clock)
    query.error = ValueError("a file is gone\nand so on")
    for tries in range(3):
        gold.turn()
        assert gold.failure is not None
        assert str(gold.failure.error).endswith("gold: the query failed: a file is gone")
        assert gold.failure.tries == tries
    assert len(caplog.records) == 1
    query.error = Conflict("E4000", "gold is of an earlier version")
    gold.turn()
    assert gold.failure is not None and str(gold.failure.error).endswith("an earlier version")
    query.error = None
    gold.turn()
    assert gold.failure is None


def test_a_lost_jvm_is_reported_by_the_run_alone(caplog: Any) -> None:
    query = Query()
    gold = loop(query, TestClock())
    for error in (Py4JError("An error occurred while calling o7.count"), ConnectionRefusedError()):
        query.error = error
        gold.turn()
        assert gold.failure is not None and not caplog.records
    # the JVM has answered
    query.error = Py4JError("An error occurred while calling o7.count. Trace:\nno method count")
    gold.turn()
    assert len(caplog.records) == 1


def test_finish_updates_gold_completely_or_raises() -> None:
    query, clock = Query(), TestClock()
    gold = loop(query, clock)
    gold.finish()
    assert query.take() == ["all"]
    query.error = OSError("the disk is full")
    with pytest.raises(Unavailable, match="gold: the query failed: the disk is full"):
        gold.finish()
    assert gold.failure is not None


def test_loop_thread_runs_until_it_is_closed() -> None:
    query = Query()
    gold = loop(query, TestClock())
    gold.start()
    gold.close()
    assert query.take() in ([], ["long"])
