"""Detectors of a document as input of the native detection (`crates/detect`).

An incident begins and ends once, and no other one of the device begins during the cool-down after
its beginning. Its id is derived from detector, device and time, so a repeated batch gives the same.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from enmasse.resources.pipeline import Detector

US_PER_MS = 1000
NEVER_US = -(1 << 62)
"""A time before all others."""


def incident_id(detector: str, source: str, device: str, metric: str | None, began_us: int) -> str:
    """Return the id of an incident, which is the same in a repeated batch."""
    words = "\0".join([detector, source, device, metric or "", str(began_us)])
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def rules(detectors: Iterable[Detector], offline_after_ms: int) -> str:
    """Return detectors of one source as JSON for `native.follow_batch`."""
    found = [
        {"name": one.name, "cooldownUs": one.cooldown * US_PER_MS, "rule": _rule(one)}
        for one in detectors
    ]
    return json.dumps({"offlineAfterUs": offline_after_ms * US_PER_MS, "detectors": found})


def _rule(detector: Detector) -> dict[str, Any]:
    metric = {"metric": detector.metric}
    if (heartbeat := detector.heartbeat) is not None:
        return {"heartbeat": {"timeoutUs": heartbeat.timeout * US_PER_MS}}
    if (rate := detector.rate) is not None:
        return {"rate": metric | {"above": rate.above, "perUs": rate.per * US_PER_MS}}
    if (ewma := detector.ewma) is not None:
        fields = {"deviations": ewma.deviations, "alpha": ewma.alpha, "warmup": ewma.warmup}
        return {"ewma": metric | fields}
    threshold = detector.threshold
    assert threshold is not None
    side, limit = (
        ("above", threshold.above) if threshold.below is None else ("below", threshold.below)
    )
    clear = limit if threshold.clear is None else threshold.clear
    return {side: metric | {"limit": limit, "clear": clear}}
