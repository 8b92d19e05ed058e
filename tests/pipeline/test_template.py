"""The document that `init` writes: its detectors fire on faults, and not on healthy devices.

They were tuned on the first 60 % of two real series of temperatures (the example
`sensor-pipeline`); the last 40 % were not used for tuning.
"""

from collections import Counter
from typing import Any

import pyarrow
import pytest
import series

from enmasse import native
from enmasse.pipeline import template
from enmasse.pipeline.detect import detectors
from enmasse.pipeline.live import rows
from enmasse.resources import Pipeline, load

S = 1_000_000
TUNED = 0.6
CITIES = ("seattle", "san-francisco")
Readings = list[tuple[int, float]]


@pytest.fixture(scope="module")
def cities() -> dict[str, Readings]:
    """Real temperatures, in degrees Celsius, about one an hour."""
    found = {one.device: one for one in series.load() if one.device in CITIES}
    return {
        city: [
            (time_us, (value - 32) / 1.8)
            for time_us, value in zip(one.times_us, one.values["temperature"], strict=True)
        ]
        for city, one in found.items()
    }


def incidents(readings: Readings, first_us: int = 0) -> Counter[str]:
    """Incidents by detector from `first_us` on; each reading arrives when it is measured."""
    (pipeline,) = load(template.document("amqp://h", "x"), "pipeline.yaml")
    assert isinstance(pipeline, Pipeline)
    times = pyarrow.array([time_us for time_us, _ in readings], pyarrow.timestamp("us", "UTC"))
    count = len(readings)
    columns: dict[str, Any] = {"device": ["d"] * count, "metric": ["temperature"] * count}
    columns |= {"value": [value for _, value in readings], "offset": range(count)}
    columns |= {"event_time": times, "enqueued_time": times}
    columns |= dict.fromkeys(("partition", "index"), pyarrow.array([0] * count, pyarrow.int32()))
    nothing = [
        pyarrow.RecordBatch.from_pylist([], rows.TABLES[table])
        for table in ("devices", "device_latest", "detector_states")
    ]
    rules = detectors.rules(pipeline.spec.detectors, pipeline.spec.live.offline_after)
    found = native.follow_batch(rules, pyarrow.record_batch(columns), *nothing)
    changes = pyarrow.record_batch(found.changes).to_pylist()
    begun = [one for one in changes if one["is_open"] and one["began_us"] >= first_us]
    return Counter(one["detector"] for one in begun)


@pytest.mark.parametrize("city", CITIES)
def test_healthy_devices_raise_no_incident(cities: dict[str, Readings], city: str) -> None:
    readings = cities[city]
    cut = int(len(readings) * TUNED)
    assert incidents(readings[:cut]) == Counter()
    # the part that was not used for tuning
    assert incidents(readings, readings[cut][0]) == Counter()
    # the same values with a reading each second
    assert incidents([(at * S, value) for at, (_, value) in enumerate(readings)]) == Counter()


FAULTS = [
    ("too-hot", {"too-hot", "unusual"}, 10_800 - 3600, 61.0),
    ("jump", {"jump", "unusual"}, 30, 21.0),
    ("silent", {"silent"}, 4 * 3600, 0.0),
    ("unusual", {"unusual"}, 3600, 18.0),
]
NAMES = [name for name, *_ in FAULTS]


@pytest.mark.parametrize(("name", "expected", "after_s", "step"), FAULTS, ids=NAMES)
def test_faults_are_detected(
    cities: dict[str, Readings], name: str, expected: set[str], after_s: int, step: float
) -> None:
    readings = cities["seattle"][:1000]
    last_us, value = readings[-1]
    value = step if name == "too-hot" else value + step
    found = incidents([*readings, (last_us + after_s * S, value)], last_us)
    assert set(found) == expected
