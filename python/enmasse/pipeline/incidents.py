"""Alerts and commands: a message for each incident, stored once whatever is killed.

They are written down in the transaction that finds the incident, and sent afterwards. A pipeline is
a numbered producer (`docs/contracts.md` 8) for each source and address: what a queue or a stream
has already is accepted again and not stored again.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow

from enmasse.base.errors import Code, EnMasseError, Missing
from enmasse.native import Outbox
from enmasse.pipeline.options import Writing
from enmasse.resources.pipeline import Detector

if TYPE_CHECKING:
    from enmasse.pipeline.live import Alert, Live

log = logging.getLogger("enmasse.pipeline")

SILENCE_MS = 5000
"""How long an address may take nothing before its alerts wait for the next time."""
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


class Teller:
    """Sends the alerts that wait."""

    def __init__(self, pipeline: str, live: "Live", servers: Mapping[str, Writing]) -> None:
        """Send those of each source to its server, numbered as the pipeline's."""
        self._pipeline = pipeline
        self._live = live
        self._servers = servers
        self._said: dict[str, str] = {}

    def tell(self) -> None:
        """Send what waits. An address that takes nothing does not keep the others waiting for
        longer than its silence, and gets what waits the next time."""
        for source, query_id, address in self._live.waiting():
            # a source may have left the document while its alerts waited
            if (server := self._servers.get(source)) is None:
                continue
            try:
                while alerts := self._live.alerts(source, address):
                    for run in _runs(alerts):
                        self._send(source, query_id, address, server, run)
                self._said.pop(address, None)
            except EnMasseError as error:
                if self._said.get(address) != str(error):
                    log.warning("alerts to %s wait: %s", address, error)
                    self._said[address] = str(error)

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
