"""Samples of an engine at chosen times."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from enmasse.api.history.recorder import Recorder
from enmasse.api.monitoring.samples import Reading, Sample
from enmasse.engines import AddressStatistics, Observed, SpaceStatistics

START = datetime(2026, 1, 1, tzinfo=UTC)
START_S = int(START.timestamp())


def sample(
    elapsed_s: float,
    addresses: Mapping[str, AddressStatistics],
    spaces: Mapping[str, SpaceStatistics] | None = None,
) -> Sample:
    """Return a sample some seconds after the start."""
    observed = Observed(0, list(addresses.values()))
    moment = START + timedelta(seconds=elapsed_s)
    reading = Reading(elapsed_s, moment, observed, addresses, spaces or {})
    return Sample(1, reading, reading)


def address(uid: str, **values: int | float) -> AddressStatistics:
    return AddressStatistics(uid, "default.shop", f"name-{uid}")._replace(**values)


def record(recorder: Recorder, taken: Sample) -> None:
    """Record a sample to its end."""
    for _ in recorder.recording(taken):
        pass
