"""The example `sensor-pipeline`: its series, its scores and, in a slow test, all of its README."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import publish
import pytest
import report
import series
from series import US_PER_S, Series

from enmasse.resources import Pipeline, load
from platform_process import ENMASSE, Platform, Start

EXAMPLE = Path(series.__file__).parent
PNG = b"\x89PNG\r\n\x1a\n"
LABELLED = (2, 3, 8)
SMALL = Series(
    "d",
    [second * US_PER_S for second in range(10)],
    {"m": [float(second) for second in range(10)]},
    [second in LABELLED for second in range(10)],
)


def incident(began: int, ended: int | None, device: str = "d") -> dict[str, Any]:
    found: dict[str, Any] = {"id": f"{device}{began}", "device": device, "metric": "m", "alerts": 1}
    ended_us = None if ended is None else ended * US_PER_S
    return found | {"began_us": began * US_PER_S, "ended_us": ended_us}


@pytest.mark.timeout(120)
def test_the_series_are_complete_and_ordered() -> None:
    every = {one.device: one for one in series.load()}
    lengths = {device: len(one.times_us) for device, one in every.items()}
    assert lengths == {
        "water-flow": 1268, "shuttle": 49_097, "seattle": 8759, "san-francisco": 8759,
    }  # fmt: skip
    for one in every.values():
        assert all(a < b for a, b in zip(one.times_us, one.times_us[1:], strict=False))
        assert {len(values) for values in one.values.values()} == {len(one.times_us)}
    water, shuttle = every["water-flow"], every["shuttle"]
    assert (sum(water.labels or []), sum(shuttle.labels or [])) == (50, 3511)
    assert series.segments(water.labels or []) == list(series.WATER_SEGMENTS)
    time_us, body = next(series.records(water))
    assert body == {"device": "water-flow", "time": "2022-03-20T10:00:00+00:00", "flow": 100.59}
    assert time_us == 1_647_770_400 * US_PER_S


def test_segments_are_runs_of_labelled_readings() -> None:
    assert series.segments([]) == series.segments([False]) == []
    assert series.segments([True, True, False, True]) == [(0, 2), (3, 4)]


def test_scheduled_series_start_together_and_honour_the_speed() -> None:
    slow = Series("e", [5 * US_PER_S, 25 * US_PER_S], {"n": [1.0, 2.0]})
    found = [(due_s, device) for due_s, device, _ in publish.scheduled([SMALL, slow], 10.0)]
    assert found[:2] == [(0.0, "d"), (0.0, "e")]
    assert found[-1] == (2.0, "e") and found == sorted(found, key=lambda one: one[0])
    unpaced = [due_s for due_s, *_ in publish.scheduled([SMALL, slow], None)]
    assert len(unpaced) == 12 and max(unpaced) < 1
    body = json.loads(next(publish.scheduled([slow], 1.0))[2])
    assert body == {"device": "e", "time": "1970-01-01T00:00:05+00:00", "n": 1.0}


def test_score_counts_readings_within_incidents() -> None:
    incidents = [incident(2, 3), incident(2, 4, "other"), incident(5, 7), incident(6, None)]
    assert report.in_incident(SMALL, incidents) == [n in (2, 5, 6, 7, 8, 9) for n in range(10)]
    score = report.score(SMALL, incidents)
    assert (score.labelled, score.found) == (3, 6)
    assert (score.precision, score.recall) == (2 / 6, 2 / 3)
    assert (score.segments, score.segments_found) == (2, 2)
    nothing = report.score(SMALL, [])
    assert (nothing.precision, nothing.recall, nothing.segments_found) == (0, 0, 0)


def test_example_pipeline_document_is_valid() -> None:
    (pipeline,) = load((EXAMPLE / "pipeline.yaml").read_text(), "pipeline.yaml")
    assert isinstance(pipeline, Pipeline)
    assert {one.alert_address for one in pipeline.spec.detectors} == {"sensor-alerts"}


@pytest.mark.timeout(120)
def test_report_draws_a_png(tmp_path: Path) -> None:
    incidents = [incident(2, 4), incident(8, None)]
    report.draw([SMALL], incidents, [report.score(SMALL, incidents)], tmp_path / "a.png")
    picture = (tmp_path / "a.png").read_bytes()
    assert picture.startswith(PNG) and len(picture) > 5000


def ran(folder: Path, *command: str | Path) -> str:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=1200, check=True
    ).stdout


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_detectors_find_labelled_readings(start_platform: Start, tmp_path: Path) -> None:
    platform: Platform = start_platform("-f", EXAMPLE / "addresses.yaml")
    document = (EXAMPLE / "pipeline.yaml").read_text()
    (tmp_path / "pipeline.yaml").write_text(
        document.replace("amqp://127.0.0.1:5672", platform.url())
    )
    for script in EXAMPLE.glob("*.py"):
        shutil.copy(script, tmp_path)
    assert (
        ran(tmp_path, sys.executable, "publish.py", platform.url())
        == "67,883 readings are stored\n"
    )
    ran(tmp_path, ENMASSE, "pipeline", "run", "--once")
    summary, *scores = ran(tmp_path, sys.executable, "report.py").splitlines()
    incidents, alerts = (int(part.split()[0].replace(",", "")) for part in summary.split(", ")[:2])
    assert incidents == alerts > 6000
    water, shuttle = map(json.loads, scores)
    assert (water["device"], water["segments_found"]) == ("water-flow", 4)
    assert water["precision"] > 0.9 and water["recall"] > 0.9
    assert shuttle["precision"] > 0.99 and shuttle["recall"] > 0.94
    assert (tmp_path / "sensors.png").read_bytes().startswith(PNG)
