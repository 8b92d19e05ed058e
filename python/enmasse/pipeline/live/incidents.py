"""Alerts and commands: a message for each incident, stored once whatever is killed.

They are written down in the transaction that finds the incident, and sent afterwards. A pipeline is
a numbered producer (`docs/contracts.md` 8) for each source and address: what a queue or a stream
has already is accepted again and not stored again.
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
from enmasse.pipeline.endings import Trouble
from enmasse.resources.pipeline import Detector

if TYPE_CHECKING:
    from enmasse.pipeline.live.database import Alert, Live

log = logging.getLogger("enmasse.pipeline")

SILENCE_MS = 5000
"""How long an address may take nothing before its alerts wait for the next time."""
PAUSES_S = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Before an address that took nothing is tried again; the last one for ever."""
AT_ONCE = 4
"""Addresses to which alerts are sent at a time."""
MISSING = "amqp:not-found"
ACCEPTED = "accepted"
"""The outcome of an alert that an address has."""
DEVICE = "{device}"
TEXTS = ("message_id", "correlation_id", "subject", "content_type", "group_id")
SCHEMA = pyarrow.schema(
    {
        **dict.fromkeys(TEXTS, pyarrow.string()),
        "durable": pyarrow.bool_(),
        "body": pyarrow.binary(),
    }
)


def messages(detector: Detector, incident: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is to be sent for an incident, a row of `anomalies`: address, subject, body."""
    said = {name: incident[name] for name in ("id", "detector", "source", "device", "metric")}
    began = datetime.fromtimestamp(incident["began_us"] / 1e6, UTC)
    said["began"] = began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    said |= {name: incident[name] for name in ("value", "reason")}
    if detector.alert_address is not None:
        yield detector.alert_address, detector.name, json.dumps(said)
    if (command := detector.command) is not None:
        address = command.address.replace(DEVICE, incident["device"])
        body = said if command.body is None else command.body
        yield address, command.subject or detector.name, json.dumps(body)


@dataclass
class _Address:
    """What is known of an address of a source: who sends to it, and since when it takes nothing."""

    under_way: "Future[None] | None" = None
    trouble: Trouble | None = None
    due_s: float = float("-inf")


class Teller:
    """Sends the alerts that wait, to a few addresses at a time."""

    def __init__(
        self, pipeline: str, live: "Live", servers: Mapping[str, Writing], clock: Clock
    ) -> None:
        """Send those of each source to its server, numbered as the pipeline's."""
        self._pipeline = pipeline
        self._live = live
        self._servers = servers
        self._clock = clock
        self._addresses: dict[tuple[str, str], _Address] = defaultdict(_Address)
        self._pool = ThreadPoolExecutor(AT_ONCE, "alerts")
        self._said: dict[str, Trouble] | None = None

    def begin(self) -> None:
        """Begin to send what waits, as far as there is room, and return at once.

        An address that takes nothing is tried again after a pause that grows, and leaves one of
        the places to those that do. Raises Unavailable if the database is away.
        """
        self._begin(set())

    def _begin(self, tried: set[tuple[str, str]]) -> None:
        """Begin to send to addresses that were not tried, and add them to those that were."""
        self._collect()
        waiting = {(one[0], one[2]): one for one in self._live.waiting()}
        for gone in self._addresses.keys() - waiting.keys():
            if self._addresses[gone].under_way is None:
                del self._addresses[gone]
        self._say()
        for key in sorted(waiting, key=lambda key: (self._tries(key), key)):
            # a source may have left the document while its alerts waited
            if key[0] in self._servers and key not in tried and self._has_room(key):
                tried.add(key)
                task = self._pool.submit(self._tell, *waiting[key])
                self._addresses[key].under_way = task

    def tell(self, within_s: float | None = None) -> None:
        """Try each address for which alerts wait and whose pause is over once, within a time or
        until all are done. Raises as `begin`."""
        tried: set[tuple[str, str]] = set()
        deadline_s = None if within_s is None else self._clock.monotonic() + within_s
        while True:
            self._begin(tried)
            tasks = [one.under_way for one in self._addresses.values() if one.under_way]
            left_s = None if deadline_s is None else deadline_s - self._clock.monotonic()
            if not tasks or (left_s is not None and left_s <= 0):
                return
            wait(tasks, left_s, FIRST_COMPLETED)

    def close(self) -> None:
        """Begin nothing more; what is under way ends by itself, in no more than its silence."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _tries(self, key: tuple[str, str]) -> int:
        trouble = self._addresses[key].trouble
        return 0 if trouble is None else trouble.tries + 1

    def _has_room(self, key: tuple[str, str]) -> bool:
        address = self._addresses[key]
        if address.under_way is not None or self._clock.monotonic() < address.due_s:
            return False
        busy = sum(1 for one in self._addresses.values() if one.under_way is not None)
        return busy < AT_ONCE - (address.trouble is not None)

    def _collect(self) -> None:
        """See what became of addresses that were tried."""
        for (_, name), address in self._addresses.items():
            if address.under_way is None or not address.under_way.done():
                continue
            task, address.under_way = address.under_way, None
            try:
                task.result()
            except EnMasseError as error:
                before = address.trouble
                if before is None or before.said != str(error):
                    log.warning("alerts to %s wait: %s", name, error)
                tries = 0 if before is None else before.tries + 1
                since = self._clock.now() if before is None else before.since
                address.trouble = Trouble(error, since, tries)
                pause_s = PAUSES_S[min(tries, len(PAUSES_S) - 1)]
                address.due_s = self._clock.monotonic() + pause_s
            else:
                address.trouble = None

    def _say(self) -> None:
        """Let live state have the addresses that take nothing."""
        found = {
            name: address.trouble
            for (_, name), address in self._addresses.items()
            if address.trouble is not None
        }
        if found != self._said:
            self._live.troubled("address", found)
            self._said = found

    def _tell(self, source: str, query_id: str, address: str) -> None:
        """Send all that waits for an address."""
        server = self._servers[source]
        while alerts := self._live.alerts(source, address):
            for run in _runs(alerts):
                self._send(source, query_id, address, server, run)

    def _send(
        self,
        source: str,
        query_id: str,
        address: str,
        server: Writing,
        alerts: "Sequence[Alert]",
    ) -> None:
        """Send alerts whose numbers follow each other."""
        producer = f"{self._pipeline}/{source}/{query_id}/alerts"
        outbox = Outbox(server.outbox(producer) | {"address": address, "silenceMs": SILENCE_MS})
        outbox.add(pyarrow.RecordBatch.from_pylist([_row(alert) for alert in alerts], SCHEMA))
        outcomes = dict.fromkeys((alert.number for alert in alerts), ACCEPTED)
        first, done = alerts[0].number, False
        while not done:
            done, causes, _ = outbox.send(first)
            # a rejected one counts as stored as soon as a later one is: it is written down first
            refused = {
                first + row: f"{name}: {cause}" for row, name, cause in causes if name != MISSING
            }
            for number, cause in refused.items():
                log.warning("alert %d to %s is rejected: %s", number, address, cause)
                outcomes.pop(number, None)
            self._live.told(source, address, refused)
            missing = [f"{name}: {cause}" for _, name, cause in causes if name == MISSING]
            if missing:
                # somebody may declare it yet; what it has already is known by its number
                raise Missing(Code.NOT_FOUND, missing[0])
        self._live.told(source, address, outcomes)


def _runs(alerts: "Sequence[Alert]") -> "Iterator[Sequence[Alert]]":
    """Split alerts where a number is missing: it was rejected."""
    first = 0
    for place in range(1, len(alerts) + 1):
        if place == len(alerts) or alerts[place].number != alerts[place - 1].number + 1:
            yield alerts[first:place]
            first = place


def _row(alert: "Alert") -> dict[str, Any]:
    return {
        "message_id": f"{alert.incident}/{alert.number}",
        "correlation_id": alert.incident,
        "subject": alert.subject,
        "content_type": "application/json",
        "group_id": alert.device,
        "durable": True,
        "body": alert.body.encode(),
    }
