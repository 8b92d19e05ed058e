"""Alerts and commands at a real platform: one for each incident, despite interruptions."""

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from doubles import TestClock
from enmasse.base.clock import Clock
from enmasse.base.errors import Unavailable
from enmasse.messaging import Data
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.live import alerts, database
from enmasse.pipeline.live.alerts import CONCURRENT_MAX, PAUSES_S, AlertSender
from enmasse.pipeline.live.database import Live
from enmasse.resources.pipeline import PipelineSpec
from platform_process import Platform, running
from published_streams import drained
from silver_readings import Batch, measured, put_in, us
from stream_documents import SPACE, address, stream

pytestmark = pytest.mark.timeout(120)
HOT = {"name": "hot", "metric": "m", "threshold": {"above": 30}, "cooldown": 0}
ALERTED = HOT | {"alertAddress": "alerts"}
QUEUES = ("alerts", "to-a", "to-b")


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform with queues, one of which holds no more than two messages, and a stream."""
    folder = tmp_path_factory.mktemp("queues")
    documents = [SPACE, *(address(name, type="queue") for name in QUEUES), stream("log")]
    documents.append(address("full", type="queue", limits="{messages: 2, onFull: block}"))
    documents.append(address("direct", type="anycast"))
    path = folder / "queues.yaml"
    path.write_text("---\n".join(documents))
    with running(folder / "data", "-f", str(path)) as platform:
        yield platform


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    found: list[Live] = []

    def open_(*detectors: Mapping[str, Any]) -> Live:
        source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
        spec = PipelineSpec.model_validate(
            {"sources": [source], "detectors": detectors}, by_alias=True
        )
        found.append(Live(f"sqlite:///{tmp_path / 'live.db'}", spec))
        # an id for each test, as each new checkpoint has
        found[-1].claim("s", str(tmp_path))
        return found[-1]

    yield open_
    for one in found:
        one.close()


def raise_incidents(db: Live, query: object, batch: int, *devices: str) -> None:
    """Give each device an incident that begins and ends."""
    rows = [
        {"device": device, "value": value, "seconds": batch * 10 + second}
        for device in devices
        for second, value in enumerate((40.0, 20.0))
    ]
    assert put_in(db, Batch("s", str(query), batch, measured(*rows), [], us(batch * 10)))


def sender(db: Live, platform: Platform, clock: Clock | None = None) -> AlertSender:
    servers = {"s": option_table.write({"url": platform.url(), "timeout": "5"})}
    return AlertSender("p", db, servers, clock or TestClock())


def test_incident_is_sent_once_despite_an_interrupted_send(
    queues: Platform, opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = opened(ALERTED)
    raise_incidents(db, tmp_path, 0, "a", "b")
    with monkeypatch.context() as cut:
        # killed after the address accepted them and before their outcomes are recorded
        cut.setattr(Live, "record_outcomes", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sender(db, queues).send()
    assert db.status()["alerts"]["waiting"] == 2
    raise_incidents(db, tmp_path, 1, "a")
    again = opened(ALERTED)
    sender(again, queues).send()
    sender(again, queues).send()
    assert again.status()["alerts"] == {"waiting": 0, "sent": 3, "rejected": 0}
    messages = drained(queues.url(), "alerts")
    ids = [row["id"] for row in again.rows(database.ANOMALIES)]
    assert [message.properties.correlation_id for message in messages] == ids
    first = messages[0]
    assert isinstance(first.body, Data)
    assert json.loads(b"".join(first.body.parts))["reason"] == "40 is above 30"
    assert (first.properties.subject, first.properties.group_id) == ("hot", "a")


def test_command_is_sent_once_the_address_of_its_device_exists(
    queues: Platform, opened: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command = {"address": "to-{device}", "subject": "cool", "body": {"valve": "open"}}
    db = opened(HOT | {"command": command})
    raise_incidents(db, tmp_path, 0, "a", "b", "c")
    clock = TestClock()
    sends = sender(db, queues, clock)
    for _ in range(2):
        sends.send()
        clock.advance(PAUSES_S[-1])
    # the address of device c does not exist yet
    assert db.status()["alerts"] == {"waiting": 1, "sent": 2, "rejected": 0}
    assert [(place, name) for place, _, name in db.pending()] == [("s", "to-c")]
    said = [record.getMessage() for record in caplog.records if "to-c" in record.getMessage()]
    assert len(said) == 1 and "amqp:not-found" in said[0]
    queues.enmasse("create", "address", "to-c", "--type", "queue")
    sends.send()
    assert db.pending() == []
    for name in ("to-a", "to-b", "to-c"):
        (message,) = drained(queues.url(), name)
        assert message.properties.subject == "cool"
        assert message.body == Data((b'{"valve": "open"}',))


def test_full_address_delays_only_its_own_alerts(
    queues: Platform, opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "SEND_TIMEOUT_MS", 300)
    db = opened(HOT | {"alertAddress": "full"}, ALERTED | {"name": "warm"})
    raise_incidents(db, tmp_path, 0, "a", "b", "c")
    clock = TestClock()
    sends = sender(db, queues, clock)
    for _ in range(2):
        sends.send()
        clock.advance(PAUSES_S[-1])
    assert [row["address"] for row in db.rows(database.ALERTS) if not row["outcome"]] != []
    assert [place[2] for place in db.pending()] == ["full"]
    assert len(drained(queues.url(), "alerts")) == 3
    found = drained(queues.url(), "full")
    while db.pending():
        clock.advance(PAUSES_S[-1])
        sends.send()
        found += drained(queues.url(), "full")
    assert sorted(message.properties.group_id or "" for message in found) == ["a", "b", "c"]


def test_alert_to_an_anycast_address_is_unsent_and_logged_once(
    queues: Platform, opened: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    db = opened(HOT | {"alertAddress": "direct"})
    raise_incidents(db, tmp_path, 0, "a")
    clock = TestClock()
    sends = sender(db, queues, clock)
    for _ in range(2):
        sends.send()
        clock.advance(PAUSES_S[-1])
    assert db.status()["alerts"]["waiting"] + db.status()["alerts"]["rejected"] == 1
    said = [record.getMessage() for record in caplog.records if "direct" in record.getMessage()]
    assert len(said) == 1


def test_blocked_addresses_do_not_delay_the_alerts_of_others(
    queues: Platform, opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, real, tried = threading.Event(), AlertSender._send, Counter[str]()

    def send(self: AlertSender, source: str, query: str, name: str, *more: Any) -> None:
        tried[name] += 1
        if name == "alerts":
            return real(self, source, query, name, *more)
        # the send waits for credit that is not granted
        assert held.wait(60)
        raise Unavailable("E6000", f"{name} takes nothing")

    monkeypatch.setattr(AlertSender, "_send", send)
    mute = [HOT | {"name": f"m{n}", "alertAddress": f"mute{n}"} for n in range(CONCURRENT_MAX + 2)]
    db, clock = opened(*mute, ALERTED), TestClock()
    raise_incidents(db, tmp_path, 0, "a")
    sends = sender(db, queues, clock)
    held.set()
    sends.send()
    held.clear()
    failures = db.status()["troubles"]["address"]
    assert sorted(failures) == [f"mute{n}" for n in range(CONCURRENT_MAX + 2)]
    assert failures["mute0"]["error"] == "mute0 takes nothing" and failures["mute0"]["tries"] == 0
    assert [message.properties.group_id for message in drained(queues.url(), "alerts")] == ["a"]
    # no address is retried before its pause ends
    tried.clear()
    sends.send()
    assert not tried
    # a working address does not wait for blocked retries of others
    clock.advance(PAUSES_S[0])
    sends.start_pending()
    raise_incidents(db, tmp_path, 1, "b")
    while ("s", str(tmp_path), "alerts") in db.pending():
        sends.start_pending()
    assert [message.properties.group_id for message in drained(queues.url(), "alerts")] == ["b"]
    assert sum(tried.values()) == CONCURRENT_MAX
    held.set()
    sends.send()
    assert db.status()["troubles"]["address"]["mute0"]["tries"] == 1
    sends.close()
