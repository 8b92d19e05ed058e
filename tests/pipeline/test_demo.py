"""The demo: what it publishes, how it judges, and, slowly, all of it."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from doubles import TestClock
from enmasse.base.errors import Invalid
from enmasse.pipeline import demo, demo_data, demo_picture
from enmasse.pipeline.demo import Outcome
from enmasse.pipeline.demo_data import US_A_S, Series
from enmasse.resources import load
from platform_process import ENMASSE, Platform

PNG = b"\x89PNG\r\n\x1a\n"
LABELLED = (2, 3, 8)
SMALL = Series(
    "d",
    [place * US_A_S for place in range(10)],
    {"m": [float(place) for place in range(10)]},
    [place in LABELLED for place in range(10)],
)


def incident(began: int, ended: int | None, device: str = "d") -> dict[str, object]:
    found: dict[str, object] = {"id": f"{device}{began}", "device": device, "metric": "m"}
    ended_us = None if ended is None else ended * US_A_S
    return found | {"began_us": began * US_A_S, "ended_us": ended_us}


@pytest.mark.timeout(120)
def never(_seconds: float) -> bool:
    """A pause of no time that nothing interrupts."""
    return False


def test_the_series_are_whole_and_in_order() -> None:
    series = {one.device: one for one in demo_data.load()}
    lengths = {device: len(one.times_us) for device, one in series.items()}
    assert lengths == {
        "water-flow": 1268, "shuttle": 49_097, "seattle": 8759, "san-francisco": 8759,
    }  # fmt: skip
    for one in series.values():
        assert all(a < b for a, b in zip(one.times_us, one.times_us[1:], strict=False))
        assert {len(values) for values in one.values.values()} == {len(one.times_us)}
    water, shuttle = series["water-flow"], series["shuttle"]
    assert (sum(water.labels or []), sum(shuttle.labels or [])) == (50, 3511)
    assert demo_data.segments(water.labels or []) == list(demo_data.WATER_SEGMENTS)
    time_us, body = next(demo_data.records(water))
    assert body == {"device": "water-flow", "time": "2022-03-20T10:00:00+00:00", "flow": 100.59}
    assert time_us == 1_647_770_400 * US_A_S


def test_segments_are_runs() -> None:
    assert demo_data.segments([]) == demo_data.segments([False]) == []
    assert demo_data.segments([True, True, False, True]) == [(0, 2), (3, 4)]


def test_series_begin_together_and_go_as_fast_as_they_are_told() -> None:
    slow = Series("e", [5 * US_A_S, 25 * US_A_S], {"n": [1.0, 2.0]})
    found = [(due_s, device) for due_s, device, _ in demo.scheduled([SMALL, slow], 10.0)]
    assert found[:2] == [(0.0, "d"), (0.0, "e")]
    assert found[-1] == (2.0, "e") and found == sorted(found, key=lambda one: one[0])
    unpaced = [due_s for due_s, *_ in demo.scheduled([SMALL, slow], None)]
    assert len(unpaced) == 12 and max(unpaced) < 1
    body = json.loads(next(demo.scheduled([slow], 1.0))[2])
    assert body == {"device": "e", "time": "1970-01-01T00:00:05+00:00", "n": 1.0}


def test_readings_in_incidents_are_found() -> None:
    incidents = [incident(2, 3), incident(2, 4, "other"), incident(5, 7), incident(6, None)]
    assert demo.found_in(SMALL, incidents) == [n in (2, 5, 6, 7, 8, 9) for n in range(10)]
    (judged,) = demo.judged([SMALL, Series("e", [0], {"m": [0.0]})], incidents)
    assert (judged.labelled, judged.found, judged.right) == (3, 6, 2)
    assert (judged.precision, judged.recall) == (2 / 6, 2 / 3)
    assert (judged.segments, judged.segments_found) == (2, 2)
    (nothing,) = demo.judged([SMALL], [])
    assert (nothing.precision, nothing.recall, nothing.segments_found) == (0, 0, 0)


def test_a_reading_that_is_rejected_ends_the_demo(
    streams: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "READINGS", "small")
    clock = TestClock()
    with pytest.raises(Invalid, match="small rejects readings: .*; delete the address"):
        demo.publish([SMALL], {"url": streams.url()}, None, clock, never, lambda: None)


@pytest.mark.parametrize("speed", [None, 0.5])
def test_a_demo_that_is_interrupted_sends_no_more(
    streams: Platform, monkeypatch: pytest.MonkeyPatch, speed: float | None
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return True

    monkeypatch.setattr(demo, "READINGS", "short3")
    long = Series("d", [n * US_A_S for n in range(5000)], {"m": [0.0] * 5000}, [])
    sent = demo.publish([long], {"url": streams.url()}, speed, TestClock(), pause, lambda: None)
    assert (sent, pauses) == ((1000, [0.0]) if speed is None else (1, [2.0]))


def test_the_document_of_the_demo_is_one() -> None:
    (found,) = load(demo.document(demo.server("amqp://h"), '{"0": 17}'), "pipeline.yaml")
    assert found.spec.sources[0].start == '{"0": 17}'
    assert {one.alert_address for one in found.spec.detectors} == {demo.ALERTS}


def test_the_demo_names_its_space_where_there_are_several(platform: Platform) -> None:
    platform.enmasse("create", "addressspace", "other")
    for name in (demo.READINGS, demo.ALERTS):
        platform.enmasse("create", "address", name, "--type", "topic", "--retention-age", "1d")
    server = demo.server(platform.url())
    sent = demo.publish([SMALL], server, None, TestClock(), never, lambda: None)
    assert sent == len(demo.received(server, demo.READINGS, "{}")) == 10
    begin = demo.end_of(server, demo.READINGS)
    (found,) = load(demo.document(server, begin), "pipeline.yaml")
    assert (found.spec.sources[0].start, dict(found.spec.sources[0].options)) == (
        '{"0": 10}',
        {"space": "default.default"},
    )


@pytest.mark.timeout(120)
def test_the_picture_is_drawn(tmp_path: Path) -> None:
    incidents = [incident(2, 4), incident(8, None)]
    judged = demo.judged([SMALL], incidents)
    outcome = Outcome(10, 1.0, incidents, [{"id": "d2"}], judged)
    demo_picture.draw([SMALL], outcome, tmp_path / "demo.png")
    picture = (tmp_path / "demo.png").read_bytes()
    assert picture.startswith(PNG) and len(picture) > 5000


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ctrl_c_ends_a_demo_that_waits_for_its_next_reading(
    platform: Platform, tmp_path: Path
) -> None:
    folder = tmp_path / "demo"
    words = [ENMASSE, "pipeline", "demo", "--folder", folder, "--speed", "0.0001"]
    address = ("address", demo.READINGS, "--type", "topic", "--retention-age", "1d")
    platform.enmasse("create", *address)
    with subprocess.Popen(words, env=platform.environment, stderr=subprocess.PIPE) as process:
        first = ("--offset", "first", "--count", "1", "--timeout", "200")
        platform.enmasse("receive", demo.READINGS, *first, timeout_s=240)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_detectors_find_what_is_labelled(platform: Platform, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    words = [ENMASSE, "pipeline", "demo", "--folder", folder, "--output", "json"]
    done = subprocess.run(
        words,
        env=os.environ | platform.environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["messages"] == 67_883
    assert found["alertsOnce"] and found["alerts"] == found["incidents"] > 6000
    water, shuttle = found["detectors"]
    assert (water["device"], water["segmentsFound"]) == ("water-flow", 4)
    assert water["precision"] > 0.9 and water["recall"] > 0.9
    assert shuttle["precision"] > 0.99 and shuttle["recall"] > 0.94
    assert (folder / "demo.png").read_bytes().startswith(PNG)
    again = subprocess.run(words, env=platform.environment, capture_output=True, text=True)
    assert again.returncode == 5 and "is there already" in again.stderr
