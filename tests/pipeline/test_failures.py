"""Errors that end a query, and its restarts."""

import logging
from pathlib import Path

import pytest

from doubles import TestClock
from enmasse.base.errors import Conflict, Unavailable
from enmasse.pipeline import failures
from enmasse.pipeline.failures import ERROR_PAUSES_S, PAUSES_S, STABLE_S, Restarts

WORKER_FAILURE = RuntimeError("Python worker failed to connect back.\n=== Streaming Query ===")
PLATFORM_ERROR = "enmasse.base.errors.Conflict: the stream was made anew"


class Captured(Exception):
    """A Java error as PySpark shows it: its cause is in `_cause`, not in `__cause__`."""

    def __init__(self, text: str, cause: Exception | None = None) -> None:
        super().__init__(text)
        self._cause = cause


SPARK_FAILURES = [
    WORKER_FAILURE,
    RuntimeError(
        "Job aborted due to stage failure: Task serialization failed:"
        " java.lang.IllegalStateException: Illegal size 5 of collection, expected 6\n\tat scala"
    ),
    Captured("[STREAM_FAILED] null", Captured("java.io.EOFException")),
    Captured("null", Captured("java.net.SocketException: Connection reset")),
    RuntimeError("Job aborted: Python worker exited unexpectedly (crashed): Fatal Python error"),
    RuntimeError("An error occurred while calling o78.load.\n: java.io.IOException: Stream closed"),
]


@pytest.mark.parametrize("error", SPARK_FAILURES)
def test_a_failure_of_spark_is_recognized_in_any_cause(error: Exception) -> None:
    found = failures.spark_failure(error)
    assert found is not None and "\n" not in found


def test_a_persistent_error_is_not_a_failure_of_spark() -> None:
    assert failures.spark_failure(RuntimeError("[UNRESOLVED_COLUMN] temperatur")) is None
    # an error of our own worker persists, even when a Java error follows it
    assert failures.spark_failure(RuntimeError(f"{PLATFORM_ERROR}\njava.io.EOFException")) is None
    ring = Captured("a")
    ring._cause = ring
    assert failures.spark_failure(ring) is None


def test_an_error_becomes_an_enmasse_error() -> None:
    assert (
        str(failures.as_error("s", RuntimeError(PLATFORM_ERROR)))
        == "source s: the stream was made anew"
    )
    assert isinstance(failures.as_error("s", RuntimeError(PLATFORM_ERROR)), Conflict)
    # an unknown class name makes it an error of Spark
    other = failures.as_error("s", RuntimeError("enmasse.base.errors.Other: x"))
    assert isinstance(other, Unavailable)
    more = failures.as_error("s", RuntimeError("[X] no\nat java.lang"), Path("/tables/spark.log"))
    assert str(more) == "source s: Spark ended the query: [X] no; see /tables/spark.log"


def test_an_error_keeps_the_stack_traces_of_spark_as_its_cause() -> None:
    ended = RuntimeError("it ended")
    assert failures.as_error("s", ended).__cause__ is ended
    ended._stackTrace = "\tat org.apache.spark.Query"  # type: ignore[attr-defined]
    assert "\tat org.apache.spark.Query" in failures.text_of(failures.as_error("s", ended))
    mine = Conflict("E4000", "mine")
    assert failures.as_error("s", mine) is mine


def test_the_summary_of_a_traceback_is_its_exception() -> None:
    raised = (
        "[STREAM_FAILED] raised by the Python Proxy. Return Message: Traceback (most recent call"
        ' last):\n  File "a.py", line 1, in f\n    g()\n    ^^^\nKeyError: 1\n\nDuring it:'
        '\n\nTraceback (most recent call last):\n  File "a.py", line 3, in g\nValueError: no such'
        " device\n\tat py4j.Protocol\n"
    )
    assert str(failures.as_error("s", RuntimeError(raised))) == (
        "source s: Spark ended the query: ValueError: no such device"
    )


def test_pauses_grow_and_the_ninth_failure_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    clock = TestClock()
    restarts = Restarts("s", clock)
    for number, pause_s in enumerate(PAUSES_S, 1):
        with caplog.at_level(logging.WARNING):
            restarts.failed(WORKER_FAILURE)
        said = f"restart in {pause_s:.0f} s, try {number} of {len(PAUSES_S)}"
        assert said in caplog.messages[-1]
        assert restarts.is_pending and not restarts.is_due
        clock.advance(pause_s)
        assert restarts.is_due
        restarts.started()
        assert not restarts.is_pending
    assert list(PAUSES_S) == sorted(PAUSES_S)
    assert restarts.failure is None
    restarts.failed(WORKER_FAILURE)
    assert "s: Spark failed 9 times without a batch" in failure_message(restarts)


def failure_message(restarts: Restarts) -> str:
    assert restarts.failure is not None
    return str(restarts.failure.error)


def test_a_persistent_error_is_retried_without_end() -> None:
    clock = TestClock()
    restarts, begun = Restarts("s", clock), clock.now()
    for tries, pause_s in enumerate([*ERROR_PAUSES_S, ERROR_PAUSES_S[-1]]):
        restarts.failed(RuntimeError(PLATFORM_ERROR))
        assert restarts.failure is not None
        assert isinstance(restarts.failure.error, Conflict)
        assert (restarts.failure.tries, restarts.failure.since) == (tries, begun)
        clock.advance(pause_s - 0.5)
        assert not restarts.is_due
        clock.advance(0.5)
        assert restarts.is_due
        restarts.started()
    assert list(ERROR_PAUSES_S) == sorted(ERROR_PAUSES_S)
    assert failure_message(restarts) == "source s: the stream was made anew"


@pytest.mark.parametrize("is_sound", [False, True])
def test_failure_ends_with_a_batch_or_a_stable_minute(is_sound: bool) -> None:
    clock = TestClock()
    restarts = Restarts("s", clock)
    restarts.failed(RuntimeError(PLATFORM_ERROR))
    restarts.started()
    assert restarts.failure is not None
    if is_sound:
        clock.advance(STABLE_S)
    else:
        restarts.progressed()
    assert restarts.failure is None
    restarts.failed(RuntimeError(PLATFORM_ERROR))
    assert restarts.failure is not None and restarts.failure.tries == 0


def use_up_restarts(restarts: Restarts, clock: TestClock) -> None:
    """Fail and restart as often as `PAUSES_S` allows."""
    for pause_s in PAUSES_S:
        restarts.failed(WORKER_FAILURE)
        clock.advance(pause_s)
        restarts.started()


def test_a_batch_or_a_stable_minute_resets_the_failures() -> None:
    clock = TestClock()
    restarts = Restarts("s", clock)
    use_up_restarts(restarts, clock)
    restarts.progressed()
    use_up_restarts(restarts, clock)
    clock.advance(STABLE_S)
    use_up_restarts(restarts, clock)
    clock.advance(STABLE_S - 1)
    restarts.failed(WORKER_FAILURE)
    assert "failed 9 times" in failure_message(restarts)


def test_failing_starts_are_not_a_stable_minute() -> None:
    clock = TestClock()
    restarts = Restarts("s", clock)
    for _ in PAUSES_S:
        restarts.failed(WORKER_FAILURE)
        # the start itself takes long and fails
        clock.advance(STABLE_S)
    restarts.failed(WORKER_FAILURE)
    assert "failed 9 times" in failure_message(restarts)
