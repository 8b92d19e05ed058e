"""The load tool through the native core."""

import pytest

from enmasse.base.errors import Invalid, Missing, Unavailable
from enmasse.native import Node, run_load


@pytest.fixture
def url(node: Node) -> str:
    return f"amqp://127.0.0.1:{node.listen('amqp', '127.0.0.1', 0)}"


def test_load_runs_and_returns_a_report(url: str) -> None:
    phases = set()

    def progress(phase: str, fraction: float, count: int) -> None:
        assert 0 <= fraction <= 1 and count >= 0
        phases.add(phase)

    options = {"url": url, "address": "orders", "duration": 0.3, "warmup": 0.1, "pids": [1, 2]}
    report = run_load(options, progress)
    assert {"warm up", "measure"} <= phases
    assert report["messages"] > 0
    assert report["totals"]["missing"] == 0
    assert report["latency"]["p50_us"] > 0
    assert report["cpu"]["tool_us_per_message"] > 0


def test_exception_raised_by_progress_ends_the_load(url: str) -> None:
    def progress(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_load({"url": url, "address": "orders", "duration": 3600}, progress)


def test_invalid_load_option_is_named(url: str) -> None:
    with pytest.raises(Invalid, match="colour"):
        run_load({"colour": "red"})
    with pytest.raises(Invalid, match="body"):
        run_load({"body": 3})
    with pytest.raises(Missing, match="nowhere"):
        run_load({"url": url, "address": "nowhere"})
    with pytest.raises(Unavailable):
        run_load({"url": "amqp://127.0.0.1:1"})


def test_load_option_none_equals_an_omitted_option(url: str) -> None:
    options = {"url": url, "address": "orders", "duration": 0.1, "warmup": 0, "capability": None}
    assert run_load(options)["mode"] == "load"
