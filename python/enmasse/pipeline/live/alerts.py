"""Alerts and commands: a message for each incident, stored exactly once.

They are recorded in the transaction of the incident and sent afterwards. A pipeline is a numbered
producer (`docs/contracts.md` 8) for each source and address: a queue or a stream accepts a message
that it has already, and does not store it again.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, EnMasseError, Missing
from enmasse.native import Outbox
from enmasse.pipeline.connector.options import Writing
from enmasse.pipeline.failures import Failure
from enmasse.resources.pipeline import Detector

if TYPE_CHECKING:
    from enmasse.pipeline.live.database import Live

log = logging.getLogger("enmasse.pipeline")

SEND_TIMEOUT_MS = 5000
"""How long an address may accept nothing before its alerts wait for the next try."""
PAUSES_S = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Before each retry of an address; the last one repeats."""
CONCURRENT_MAX = 4
"""Addresses to which alerts are sent concurrently."""
MISSING = "amqp:not-found"
ACCEPTED = "accepted"
"""The outcome of a stored alert."""
DEVICE = "{device}"
TEXTS = ("message_id", "correlation_id", "subject", "content_type", "group_id")
SCHEMA = pyarrow.schema(
    dict.fromkeys(TEXTS, pyarrow.string()) | {"durable": pyarrow.bool_(), "body": pyarrow.binary()}
)


def messages(detector: Detector, incident: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the messages for an incident, a row of `anomalies`: address, subject, body."""
    alert = {name: incident[name] for name in ("id", "detector", "source", "device", "metric")}
    began = datetime.fromtimestamp(incident["began_us"] / 1e6, UTC)
    alert["began"] = began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    alert |= {name: incident[name] for name in ("value", "reason")}
    if detector.alert_address is not None:
        yield detector.alert_address, detector.name, json.dumps(alert)
    if (command := detector.command) is not None:
        address = command.address.replace(DEVICE, incident["device"])
        body = alert if command.body is None else command.body
        yield address, command.subject or detector.name, json.dumps(body)


@dataclass
class _Address:
    """The state of an address of a source: its sending task, and its last error."""

    task: "Future[None] | None" = None
    failure: Failure | None = None
    due_s: float = float("-inf")


class AlertSender:
    """Sends pending alerts, to a few addresses at a time."""

    def __init__(
        self, pipeline: str, live: "Live", servers: Mapping[str, Writing], clock: Clock
    ) -> None:
        """Send alerts of each source to its server, under the name of the pipeline."""
        self._pipeline = pipeline
        self._live = live
        self._servers = servers
        self._clock = clock
        self._addresses: dict[tuple[str, str], _Address] = defaultdict(_Address)
        self._pool = ThreadPoolExecutor(CONCURRENT_MAX, "alerts")
        self._recorded: dict[str, Failure] | None = None

    def start_pending(self) -> None:
        """Start to send pending alerts, within the limit of concurrency, and return at once.

        Failing addresses are retried after growing pauses, and leave one task to the others. Raises
        Unavailable if the database is unavailable.
        """
        self._start(set())

    def _start(self, tried: set[tuple[str, str]]) -> None:
        """Start to send to addresses that were not tried, and add them to `tried`."""
        self._collect()
        pending = {(one[0], one[2]): one for one in self._live.pending()}
        for gone in self._addresses.keys() - pending.keys():
            if self._addresses[gone].task is None:
                del self._addresses[gone]
        self._record_failures()
        for key in sorted(pending, key=lambda key: (self._tries(key), key)):
            # the document may have lost the source of pending alerts
            if key[0] in self._servers and key not in tried and self._has_room(key):
                tried.add(key)
                task = self._pool.submit(self._send_pending, *pending[key])
                self._addresses[key].task = task

    def send(self, within_s: float | None = None) -> None:
        """Try each address with pending alerts that is due once, within a time or until all are
        done. Raises as `start_pending`.
        """
        tried: set[tuple[str, str]] = set()
        deadline_s = None if within_s is None else self._clock.monotonic() + within_s
        while True:
            self._start(tried)
            tasks = [one.task for one in self._addresses.values() if one.task]
            left_s = None if deadline_s is None else deadline_s - self._clock.monotonic()
            if not tasks or (left_s is not None and left_s <= 0):
                return
            wait(tasks, left_s, FIRST_COMPLETED)

    def close(self) -> None:
        """Start nothing more; running tasks end by themselves within `SEND_TIMEOUT_MS`."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _tries(self, key: tuple[str, str]) -> int:
        failure = self._addresses[key].failure
        return 0 if failure is None else failure.tries + 1

    def _has_room(self, key: tuple[str, str]) -> bool:
        address = self._addresses[key]
        if address.task is not None or self._clock.monotonic() < address.due_s:
            return False
        busy = sum(1 for one in self._addresses.values() if one.task is not None)
        return busy < CONCURRENT_MAX - (address.failure is not None)

    def _collect(self) -> None:
        """Collect the results of tasks."""
        for (_, name), address in self._addresses.items():
            if address.task is None or not address.task.done():
                continue
            task, address.task = address.task, None
            try:
                task.result()
            except EnMasseError as error:
                before = address.failure
                if before is None or str(before.error) != str(error):
                    log.warning("alerts to %s are pending: %s", name, error)
                address.failure = Failure.after(before, error, self._clock)
                address.due_s = self._clock.monotonic() + address.failure.pause_s(PAUSES_S)
            else:
                address.failure = None

    def _record_failures(self) -> None:
        """Record failing addresses in live state."""
        found = {
            name: address.failure
            for (_, name), address in self._addresses.items()
            if address.failure is not None
        }
        if found != self._recorded:
            self._live.record_failures("address", found)
            self._recorded = found

    def _send_pending(self, source: str, query_id: str, address: str) -> None:
        """Send all pending alerts of an address."""
        while alerts := self._live.alerts(source, address):
            for run in _runs(alerts):
                self._send(source, query_id, address, run)

    def _send(self, source: str, query_id: str, address: str, alerts: Sequence[Any]) -> None:
        """Send alerts with consecutive numbers."""
        server = self._servers[source]
        producer = f"{self._pipeline}/{source}/{query_id}/alerts"
        outbox = Outbox(
            server.outbox(producer) | {"address": address, "silenceMs": SEND_TIMEOUT_MS}
        )
        outbox.add(pyarrow.RecordBatch.from_pylist([_row(alert) for alert in alerts], SCHEMA))
        outcomes = dict.fromkeys((alert.number for alert in alerts), ACCEPTED)
        first, done = alerts[0].number, False
        while not done:
            done, causes, _ = outbox.send(first)
            # recorded first: a rejected one counts as stored once a later one is stored
            refused = {
                first + row: f"{name}: {cause}" for row, name, cause in causes if name != MISSING
            }
            for number, cause in refused.items():
                log.warning("alert %d to %s is rejected: %s", number, address, cause)
                outcomes.pop(number, None)
            self._live.record_outcomes(source, address, refused)
            missing = [f"{name}: {cause}" for _, name, cause in causes if name == MISSING]
            if missing:
                # the address may be declared later; stored alerts are known by number
                raise Missing(Code.NOT_FOUND, missing[0])
        self._live.record_outcomes(source, address, outcomes)


def _runs(alerts: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Split alerts at missing numbers, which were rejected."""
    first = 0
    for index in range(1, len(alerts) + 1):
        if index == len(alerts) or alerts[index].number != alerts[index - 1].number + 1:
            yield alerts[first:index]
            first = index


def _row(alert: Any) -> dict[str, Any]:
    return {
        "message_id": f"{alert.incident}/{alert.number}",
        "correlation_id": alert.incident,
        "subject": alert.subject,
        "content_type": "application/json",
        "group_id": alert.device,
        "durable": True,
        "body": alert.body.encode(),
    }
