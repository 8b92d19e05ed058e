"""The native detection finds what `detect.follow` finds, however readings fall into batches."""

import json
from dataclasses import asdict
from typing import Any

import pyarrow
from hypothesis import given, settings
from hypothesis import strategies as st

from enmasse.native import follow_batch
from enmasse.pipeline.detect.detectors import NEVER_US, Change, State, follow, follow_silence
from enmasse.resources.pipeline import Detector
from measured import measured, us

S = 1_000_000
RULES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"threshold": {"above": 1.0, "clear": -1.0}, "cooldown": 0},
        {"above": {"limit": 1.0, "clear": -1.0}},
    ),
    (
        {"threshold": {"below": 0.0}, "cooldown": "30s"},
        {"below": {"limit": 0.0, "clear": 0.0}},
    ),
    (
        {"ewma": {"deviations": 1.5, "warmup": 3, "alpha": 0.1}, "cooldown": "10s"},
        {"ewma": {"deviations": 1.5, "warmup": 3, "alpha": 0.1}},
    ),
    ({"heartbeat": {"timeout": "2s"}, "cooldown": "5s"}, {"heartbeat": {"timeoutUs": 2 * S}}),
]
STATES = pyarrow.schema(
    {
        "detector": pyarrow.string(),
        "device": pyarrow.string(),
        "time_us": pyarrow.int64(),
        "value": pyarrow.float64(),
        "is_open": pyarrow.bool_(),
        "began_us": pyarrow.int64(),
        "count": pyarrow.int64(),
        "mean": pyarrow.float64(),
        "variance": pyarrow.float64(),
        "recent": pyarrow.string(),
    }
)
LONG, TEXT = pyarrow.int64(), pyarrow.string()
SEEN = ("first_seen_us", "last_seen_us", "session_began_us", "readings")
DEVICES = pyarrow.schema({"device": TEXT, **dict.fromkeys(SEEN, LONG)})
LATEST = pyarrow.schema({"device": TEXT, "metric": TEXT, "event_time_us": LONG})
STEP = st.tuples(st.sampled_from("ab"), st.integers(-1, 4), st.floats(-3, 3))


@settings(deadline=None)
@given(st.lists(st.lists(STEP, max_size=15), max_size=4))
def test_it_finds_what_python_finds(batches: list[list[tuple[str, int, float]]]) -> None:
    detectors, rules = [], []
    for number, (document, rule) in enumerate(RULES):
        is_heartbeat = "heartbeat" in document
        chosen = {"name": f"d{number}", "metric": None if is_heartbeat else "m"}
        detectors.append(Detector.model_validate(chosen | document, by_alias=True))
        ((kind, fields),) = rule.items()
        watched = {} if is_heartbeat else {"metric": "m"}
        cooldown_us = detectors[-1].cooldown * 1000
        one = {"name": f"d{number}", "cooldownUs": cooldown_us, "rule": {kind: watched | fields}}
        rules.append(one)
    known: dict[tuple[str, str], State] = {}
    native: dict[tuple[str, str], dict[str, Any]] = {}
    newest: dict[str, int] = {}
    time = 0
    for steps in batches:
        rows = []
        for device, step, value in steps:
            time += step
            rows.append({"device": device, "seconds": time, "value": value})
        if not rows:
            continue
        expected = _by_python(detectors, known, rows)
        readings = measured(*rows).combine_chunks().to_batches()[0]
        states = pyarrow.RecordBatch.from_pylist(list(native.values()), STATES)
        said = json.dumps({"offlineAfterUs": S, "detectors": rules})
        none = pyarrow.RecordBatch.from_pylist([], DEVICES)
        before = [
            {"device": device, "metric": "m", "event_time_us": time_us}
            for device, time_us in newest.items()
        ]
        latest = pyarrow.RecordBatch.from_pylist(before, LATEST)
        found = follow_batch(said, readings, none, latest, states)
        for one in rows:
            device, time_us = one["device"], us(one["seconds"])
            newest[device] = max(time_us, newest.get(device, time_us))
        for row in pyarrow.record_batch(found.states).to_pylist():
            native[row["detector"], row["device"]] = row
        assert _told(pyarrow.record_batch(found.changes).to_pylist()) == expected
    for key, row in native.items():
        state = known[key]
        if key[0] in ("d0", "d1"):
            assert (row["is_open"], row["began_us"]) == (state.is_open, state.began_us)
        else:
            fields = asdict(state)
            assert {name: row[name] for name in fields} == fields


def _by_python(
    detectors: list[Detector], known: dict[tuple[str, str], State], rows: list[dict[str, Any]]
) -> list[tuple[Any, ...]]:
    found = []
    for detector in detectors:
        for device in sorted({row["device"] for row in rows}):
            mine = [row for row in rows if row["device"] == device]
            state = known.get((detector.name, device), State())
            changes: list[Change]
            if detector.heartbeat is None:
                places = sorted(range(len(mine)), key=lambda place: (mine[place]["seconds"], place))
                series = [(us(mine[place]["seconds"]), mine[place]["value"]) for place in places]
                state, changes = follow(detector, state, series)
            else:
                arrivals = sorted(us(row["seconds"]) for row in mine)
                state, changes = follow_silence(detector, state, arrivals, NEVER_US)
            known[detector.name, device] = state
            for one in changes:
                what = (one.what == "began", one.time_us, one.value, one.began_us, one.reason)
                found.append((detector.name, device, *what))
    return sorted(found, key=repr)


def _told(changes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in changes), key=repr)
