"""The demo: real series through the platform and a pipeline, and how well its detectors did."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import merge
from typing import Any

import pyarrow
import yaml
from pyspark.sql import SparkSession

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Invalid
from enmasse.native import Outbox
from enmasse.pipeline import demo_data
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.ranges import Slice
from enmasse.pipeline.demo_data import US_A_S, Series
from enmasse.pipeline.live import schema
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.places import Places
from enmasse.pipeline.run import Run
from enmasse.resources import API_VERSION, Pipeline

READINGS, ALERTS = "demo-readings", "demo-alerts"
"""Addresses of the demo: streams."""
SPACE = "default.default"
"""Where they are: the address space, and its namespace."""
CHUNK = 1000
"""Messages that are sent at once."""
SILENCE_MS = 30_000
NEVER_US = 1 << 62
DETECTORS = (
    {"name": "flow-low", "metric": "flow", "threshold": {"below": 95, "clear": 98}},
    {"name": "flow-jump", "metric": "flow", "rate": {"above": 6, "per": "1h"}},
    {"name": "shuttle-f1", "metric": "f1", "threshold": {"above": 68}},
    {"name": "shuttle-f7", "metric": "f7", "threshold": {"below": 16}},
    {"name": "warm", "metric": "temperature", "threshold": {"above": 72, "clear": 66}},
)
"""Limits chosen by looking at the whole of each series, so what they find says little of others."""
SCHEMA = pyarrow.schema(
    {
        "group_id": pyarrow.string(),
        "content_type": pyarrow.string(),
        "body": pyarrow.string(),
    }
)
Pause = Callable[[float], bool]
"""Waits for so many seconds, and says whether no more is to be sent, which ends the wait."""
Server = Mapping[str, str]
"""Options of the format that say how a server is reached."""


@dataclass(frozen=True)
class Judgement:
    """How well the detectors found the labelled readings of a device."""

    device: str
    readings: int
    labelled: int
    found: int
    """Readings in incidents."""

    right: int
    """Those of them that are labelled."""

    segments: int
    segments_found: int

    @property
    def precision(self) -> float:
        """What part of that which was found is labelled."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """What part of the labelled readings was found."""
        return self.right / self.labelled if self.labelled else 0.0


@dataclass
class Outcome:
    """What came of a demo."""

    messages: int = 0
    seconds: float = 0.0
    incidents: list[dict[str, Any]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    """As they were received."""

    judgements: list[Judgement] = field(default_factory=list)


def server(url: str) -> Server:
    """Return how the platform at a URL is reached, whatever other spaces it has."""
    return {"url": url, "space": SPACE}


def document(reached: Server, start: str) -> str:
    """Return the pipeline of the demo, which reads its stream from a place on."""
    metrics = ["flow", *demo_data.SHUTTLE_METRICS, "temperature"]
    source: dict[str, Any] = {"name": "demo", "url": reached["url"], "address": READINGS}
    source |= {"start": start, "options": {"space": reached["space"]}}
    # the readings are years old
    source |= {"time": "time", "metrics": metrics, "late": "36500d"}
    detectors = [detector | {"cooldown": 0, "alertAddress": ALERTS} for detector in DETECTORS]
    spec = {"sources": [source], "windows": ["1h"], "detectors": detectors, "trigger": "1s"}
    named = {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": {"name": "demo"}}
    return yaml.safe_dump(named | {"spec": spec}, sort_keys=False)


def scheduled(series: Sequence[Series], speed: float | None) -> Iterator[tuple[float, str, str]]:
    """Yield messages in the order in which they are sent: when, in seconds from the beginning,
    device, body.

    All series begin at once and go `speed` times as fast as they were measured; without a speed
    each is spread over one second.
    """

    def of(one: Series) -> Iterator[tuple[float, str, str]]:
        begin, end = one.times_us[0], one.times_us[-1]
        pace = US_A_S * speed if speed else end - begin + 1
        for time_us, body in demo_data.records(one):
            yield (time_us - begin) / pace, one.device, json.dumps(body)

    return merge(*(of(one) for one in series))


def publish(
    series: Sequence[Series],
    reached: Server,
    speed: float | None,
    clock: Clock,
    pause: Pause,
    advance: Callable[[], None],
) -> int:
    """Send all readings, or until `pause` ends it, and return how many, when each is stored.

    Raises Unavailable if the server takes nothing for 30 s, Invalid if it rejects a reading.
    """
    options = option_table.write({"address": READINGS} | dict(reached))
    outbox = Outbox(options.outbox(None) | {"silenceMs": SILENCE_MS})
    begun = clock.monotonic()
    count = 0

    waiting: list[dict[str, str]] = []
    for due_s, device, body in scheduled(series, speed):
        ahead_s = due_s - (clock.monotonic() - begun) if speed else 0.0
        if len(waiting) >= CHUNK or ahead_s > 0:
            count += _sent(outbox, waiting, advance)
            if pause(max(ahead_s, 0.0)):
                return count
        waiting.append({"group_id": device, "content_type": "application/json", "body": body})
    return count + _sent(outbox, waiting, advance)


def _sent(outbox: Outbox, waiting: list[dict[str, str]], advance: Callable[[], None]) -> int:
    """Send what waits and return how many that were; raises Invalid if one is rejected."""
    count = len(waiting)
    if count:
        outbox.add(pyarrow.RecordBatch.from_pylist(waiting, SCHEMA))
        _, causes, _ = outbox.send(0)
        for _, condition, description in causes:
            raise Invalid(
                Code.REQUEST_INVALID,
                f"{READINGS} rejects readings: {condition}: {description}; delete the address, and"
                " let the demo make it anew",
            )
        waiting.clear()
    for _ in range(count):
        advance()
    return count


def end_of(reached: Server, address: str) -> str:
    """Return where a stream ends, as the place from which a source reads."""
    state = reading.state(option_table.read({"address": address} | dict(reached)))
    return json.dumps({str(part): found.next for part, found in state.partitions.items()})


def run(
    spark: SparkSession,
    pipeline: Pipeline,
    places: Places,
    live: Live,
    clock: Clock,
    send: Callable[[Pause], int],
    tell: Callable[[dict[str, Any]], None],
) -> int:
    """Run the pipeline while `send` publishes, until all of that is in its tables and all alerts
    are sent; return how many messages that were. Raises what ends the pipeline or `send`, and lets
    `send` end early then."""
    stop, ended, seen = threading.Event(), threading.Event(), _Seen()

    def told(batch: dict[str, Any]) -> None:
        seen.add(batch["messages"])
        tell(batch)

    def work() -> int:
        try:
            sent = send(ended.wait)
            seen.wait(sent)
            return sent
        finally:
            stop.set()

    queries = Run(spark, pipeline, places, live, clock)
    with ThreadPoolExecutor(1, "demo") as executor:
        try:
            queries.start(told, once=False)
            sending = executor.submit(work)
            queries.watch(stop)
        finally:
            ended.set()
            seen.end()
            queries.stop()
        return sending.result()


class _Seen:
    """How many messages are in the tables."""

    def __init__(self) -> None:
        self._count = 0
        self._ended = False
        self._changed = threading.Condition()

    def add(self, count: int) -> None:
        with self._changed:
            self._count += count
            self._changed.notify_all()

    def end(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._count >= count)


def received(reached: Server, address: str, start: str) -> list[dict[str, Any]]:
    """Return the bodies that a stream has from a place on."""
    options = option_table.read({"address": address, "columns": "body"} | dict(reached))
    first = {int(part): offset for part, offset in json.loads(start).items()}
    return [
        json.loads(body)
        for number, part in reading.state(options).partitions.items()
        for batch in reading.batches(options, Slice(number, first.get(number, 0), part.next, None))
        for body in batch.column("body").to_pylist()
    ]


def judged(series: Sequence[Series], incidents: Sequence[dict[str, Any]]) -> list[Judgement]:
    """Return how well incidents, rows of `anomalies`, meet the labels of each labelled series."""
    return [_judged(one, one.labels, found_in(one, incidents)) for one in series if one.labels]


def found_in(one: Series, incidents: Sequence[dict[str, Any]]) -> list[bool]:
    """Return which readings of a series lie in an incident."""
    spans = sorted(
        (row["began_us"], row["ended_us"] or NEVER_US)
        for row in incidents
        if row["device"] == one.device
    )
    found, place, until_us = [], 0, 0
    for time_us in one.times_us:
        while place < len(spans) and spans[place][0] <= time_us:
            until_us = max(until_us, spans[place][1])
            place += 1
        found.append(time_us < until_us)
    return found


def _judged(one: Series, labels: list[bool], found: list[bool]) -> Judgement:
    runs = demo_data.segments(labels)
    return Judgement(
        device=one.device,
        readings=len(labels),
        labelled=sum(labels),
        found=sum(found),
        right=sum(a and b for a, b in zip(labels, found, strict=True)),
        segments=len(runs),
        segments_found=sum(any(found[first:end]) for first, end in runs),
    )


def outcome(
    series: Sequence[Series],
    live: Live,
    alerts: list[dict[str, Any]],
    messages: int,
    seconds: float,
) -> Outcome:
    """Return what came of a run."""
    incidents = live.rows(schema.ANOMALIES)
    return Outcome(messages, seconds, incidents, alerts, judged(series, incidents))
