"""Rules for the native detection, and ids of incidents."""

import json
from typing import Any

import pytest

from enmasse.pipeline.detect.detectors import incident_id, rules
from enmasse.resources.pipeline import Detector


def test_an_incident_id_derives_from_device_detector_and_time() -> None:
    one = incident_id("d", "s", "dev", "m", 5)
    # sent alerts carry this id: another id would report their incidents again
    assert one == "f66bf352c81d7339f4f47382ffd9c5fb"
    others = {
        incident_id("d", "s", "dev", "m", 6),
        incident_id("d", "s", "dev", None, 5),
        incident_id("d", "s", "devm", "", 5),
    }
    assert len(others | {one}) == 4


RULES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"metric": "m", "threshold": {"above": 3.0}},
        {"above": {"metric": "m", "limit": 3.0, "clear": 3.0}},
    ),
    (
        {"metric": "m", "threshold": {"below": 0.0, "clear": 1.0}},
        {"below": {"metric": "m", "limit": 0.0, "clear": 1.0}},
    ),
    (
        {"metric": "m", "rate": {"above": 5.0, "per": "1m"}},
        {"rate": {"metric": "m", "above": 5.0, "perUs": 60_000_000}},
    ),
    (
        {"metric": "m", "ewma": {"deviations": 6.0}},
        {"ewma": {"metric": "m", "deviations": 6.0, "alpha": 0.05, "warmup": 30}},
    ),
    ({"heartbeat": {"timeout": "10s"}}, {"heartbeat": {"timeoutUs": 10_000_000}}),
]


@pytest.mark.parametrize(("document", "rule"), RULES)
def test_detector_is_compiled_to_one_rule(document: dict[str, Any], rule: dict[str, Any]) -> None:
    detector = Detector.model_validate({"name": "d", "cooldown": "2s"} | document, by_alias=True)
    assert json.loads(rules([detector], 7)) == {
        "offlineAfterUs": 7000,
        "detectors": [{"name": "d", "cooldownUs": 2_000_000, "rule": rule}],
    }
