"""Usage of address spaces: the record of each period, and exhausted allowances."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from doubles import TestClock, address_plan, infra, space, space_plan
from enmasse.base.errors import Code, Unavailable
from enmasse.base.tasks import Backoff
from enmasse.control import Admission, Manager, Recorder, UsageFile
from enmasse.control.deleted_usage import NAMES_MAX, DeletedUsage
from enmasse.control.recorder import SAVE_S
from enmasse.control.usage import SENDING, UsageBook, period_of
from enmasse.control.usage_file import Records
from enmasse.engines import AddressStatistics, SpaceStatistics
from enmasse.resources import AddressSpace, ConfigMap, Key, parse
from enmasse.resources.address_space import PERIODS_KEPT, Usage
from enmasse.resources.address_space_plan import Allowance
from enmasse.resources.conditions import find
from enmasse.resources.core import DATA_BYTES_MAX, NamedMetadata
from enmasse.store import MemoryStore
from fake_engine import FakeEngine

SPACE = Key("AddressSpace", "default", "default")
DAY = Allowance(period="day", messages=100)
NOON = datetime(2026, 12, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "allowance", "name", "end"),
    [
        (datetime(2026, 1, 31, 23, 59, tzinfo=UTC), None, "2026-01", (2026, 2, 1)),
        (datetime(2026, 2, 1, tzinfo=UTC), Allowance(), "2026-02", (2026, 3, 1)),
        (NOON, Allowance(period="month"), "2026-12", (2027, 1, 1)),
        (NOON, DAY, "2026-12-31", (2027, 1, 1)),
    ],
)
def test_a_period_is_a_day_or_a_month(
    now: datetime, allowance: Allowance | None, name: str, end: tuple[int, int, int]
) -> None:
    assert period_of(now, allowance) == (name, datetime(*end, tzinfo=UTC))


def statistics(messages: int, connections: int = 1) -> SpaceStatistics:
    """Statistics of a space that got this many messages of ten bytes, each received twice."""
    return SpaceStatistics(
        *("s", "default.default", connections, 1),
        *(messages, 10 * messages, 2 * messages, 20 * messages),
    )


def book() -> UsageBook:
    found = UsageBook()
    found.open(space(uid="s"))
    return found


def records(found: UsageBook) -> list[tuple[str, int]]:
    told = found.with_usage(space(uid="s"), None, None, NOON)
    return [(one.period, one.messages_in) for one in told.status.usage or ()]


def test_usage_counters_are_summed_by_period() -> None:
    found = book()
    found.count([statistics(3, connections=5)], lambda _: None, NOON)
    found.count([statistics(10, connections=2)], lambda _: None, NOON)
    (record,) = found.with_usage(space(uid="s"), None, None, NOON).status.usage or ()
    assert record.model_dump() == {
        **{"period": "2026-12", "messages_in": 10, "bytes_in": 100},
        **{"messages_out": 20, "bytes_out": 200, "connections": 5, "stored_bytes": 0},
    }
    found.count([statistics(11)], lambda _: None, NOON.replace(year=2027))
    assert records(found) == [("2027-12", 1), ("2026-12", 10)]


def test_usage_counters_that_restart_at_zero_are_added() -> None:
    found = book()
    found.count([statistics(10)], lambda _: None, NOON)
    found.count([statistics(4)], lambda _: None, NOON)
    assert records(found) == [("2026-12", 14)]


def test_usage_record_continues_from_the_status_of_the_space() -> None:
    before = book()
    before.count([statistics(10)], lambda _: None, NOON)
    after = UsageBook()
    after.open(before.with_usage(space(uid="s"), None, None, NOON))
    after.count([statistics(5)], lambda _: None, NOON)
    assert records(after) == [("2026-12", 15)]


def test_usage_keeps_a_bounded_number_of_periods() -> None:
    found = book()
    for day in range(1, 31):
        found.count([statistics(day)], lambda _: DAY, NOON.replace(month=11, day=day))
    kept = records(found)
    assert len(kept) == PERIODS_KEPT
    assert kept[0] == ("2026-11-30", 1)


def test_usage_of_an_unknown_or_closed_space_is_not_counted() -> None:
    found = UsageBook()
    found.count([statistics(3)], lambda _: None, NOON)
    assert found.exhausted(lambda _: DAY, NOON) == {}
    found.open(space(uid="s"))
    found.count([statistics(200)], lambda _: DAY, NOON)
    assert set(found.exhausted(lambda _: DAY, NOON)) == {"s"}
    found.close("s")
    assert found.exhausted(lambda _: DAY, NOON) == {}


@pytest.mark.parametrize(
    ("allowance", "says"),
    [
        (
            {"messages": 10},
            "the allowance of 10 messages of 2026-12 is used up: senders get no credit until",
        ),
        ({"bytes": 100}, "the allowance of 100 bytes of 2026-12 is used up"),
        ({"messages": 11, "bytes": 101}, None),
        ({}, None),
        ({"period": "day", "messages": 1}, None),
    ],
)
def test_allowance_is_exhausted_by_messages_or_bytes(
    allowance: dict[str, Any], says: str | None
) -> None:
    found = book()
    found.count([statistics(10)], lambda _: None, NOON)
    told = found.exhausted(lambda _: Allowance(**allowance), NOON)
    assert (says is None) == (told == {})
    if says is not None:
        assert says in told["s"]
        assert "until 2027-01-01T00:00:00Z" in told["s"]


class Platform:
    """A store, a manager and a recorder; the space has a plan with an allowance a day."""

    def __init__(self, interim: UsageFile | None = None) -> None:
        self.clock = TestClock(NOON)
        self.store = MemoryStore(self.clock)
        self.admission = Admission(self.store, exposed=False)
        self.start(interim)

    def start(self, interim: UsageFile | None = None) -> None:
        self.engine = FakeEngine()
        computed = MemoryStore(self.clock)
        backoff = Backoff(0.001, 0.01)
        self.manager = Manager(self.store, self.engine, self.clock, computed, backoff)
        self.recorder = Recorder(self.manager.usage, self.engine, self.clock, interim)
        self.manager.usage.recover(interim.read() if interim else {})

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Platform"]:
        await self.manager.catch_up()
        task = asyncio.ensure_future(self.manager.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def declare(self, **allowance: Any) -> None:
        queues = address_plan("q", "queue", router=0.1, broker=0.1)
        plan = space_plan("p", [queues], limits={"messagesPerSecond": 5, "allowance": allowance})
        await self.admission.apply([infra(), queues, plan, space(plan="p")])

    def space(self) -> AddressSpace:
        found = self.store.get(SPACE)
        assert isinstance(found, AddressSpace)
        return found

    async def carries(self, messages: int) -> None:
        """Set the counters of the engine, and wait for the effects."""
        uid = self.space().metadata.uid or ""
        self.engine.carried = [statistics(messages)._replace(uid=uid)]
        self.manager.usage.note(await self.engine.usage())
        await self.settled()

    async def carries_once(self, messages: int) -> None:
        """Count messages of a restarted engine, and save the usage."""
        uid = self.space().metadata.uid or ""
        self.manager.usage.note([statistics(messages)._replace(uid=uid)])
        await self.manager.usage.save()

    def messages_in(self) -> int:
        usage = self.space().status.usage
        return usage[0].messages_in if usage else 0

    async def settled(self) -> None:
        self.manager.usage.note(await self.engine.usage())
        # The first change may join a pass in progress; the second starts a pass that sees it all.
        for label in ("one", "two"):
            await self.admission.apply([space(plan="p", labels={"seen": label})])
            await self.manager.reached(self.store.version)

    def exhausted(self) -> bool:
        (planned,) = self.engine.plan.spaces
        return planned.limits.exhausted

    def sending(self) -> tuple[str, str]:
        condition = find(self.space().status.conditions, SENDING)
        assert condition is not None
        return condition.status, condition.reason


async def test_exhausted_allowance_is_applied_to_the_engine_and_the_status() -> None:
    platform = Platform()
    await platform.declare(period="day", messages=100)
    async with platform.running():
        assert platform.sending() == ("True", "WithinAllowance")
        (planned,) = platform.engine.plan.spaces
        assert planned.limits.messages_per_second == 5
        await platform.carries(99)
        assert not platform.exhausted()
        await platform.carries(100)
        assert platform.exhausted()
        assert platform.sending() == ("False", "AllowanceUsedUp")
        status = platform.space().status
        assert status.is_ready
        assert status.usage is not None and status.usage[0].messages_in == 100
        (message,) = status.messages
        assert "until 2027-01-01T00:00:00Z" in message
        await platform.carries(105)
        assert platform.space().status.messages == (message,)


async def test_next_period_restores_the_allowance() -> None:
    platform = Platform()
    await platform.declare(period="day", messages=100)
    async with platform.running():
        await platform.carries(100)
        assert platform.exhausted()
        platform.clock.advance(12 * 3600)
        await platform.settled()
        assert not platform.exhausted()
        assert platform.sending() == ("True", "WithinAllowance")
        assert platform.space().status.messages == ()


async def test_larger_allowance_of_the_plan_takes_effect_at_once() -> None:
    platform = Platform()
    await platform.declare(period="day", messages=100)
    async with platform.running():
        await platform.carries(100)
        await platform.declare(period="day", messages=1000)
        await platform.manager.reached(platform.store.version)
        assert not platform.exhausted()
        await platform.declare(period="day", messages=50)
        await platform.manager.reached(platform.store.version)
        assert platform.exhausted()


async def test_exhausted_allowance_stays_exhausted_after_a_restart() -> None:
    platform = Platform()
    await platform.declare(period="day", messages=100)
    async with platform.running():
        await platform.carries(100)
    stored = parse(platform.space().document(), stored=True)
    assert stored == platform.space(), "the usage record round-trips"
    platform.start()
    async with platform.running():
        assert platform.exhausted(), "before any client can connect"
        await platform.carries(3)
        await platform.manager.usage.save()
        usage = platform.space().status.usage
        assert usage is not None and usage[0].messages_in == 103


async def test_space_without_an_allowance_has_a_usage_record() -> None:
    platform = Platform()
    await platform.declare()
    await platform.admission.apply([space_plan("p", [address_plan("q", "queue", 0.1, 0.1)])])
    async with platform.running():
        await platform.carries(7)
        await platform.manager.usage.save()
        status = platform.space().status
        assert find(status.conditions, SENDING) is None
        assert status.usage is not None and status.usage[0].period == "2026-12"


async def test_usage_is_saved_periodically_and_at_shutdown() -> None:
    platform = Platform()
    await platform.declare(messages=1000)
    async with platform.running():
        uid = platform.space().metadata.uid or ""
        platform.engine.carried = [statistics(7)._replace(uid=uid)]
        stored = [("a", 30), ("b", 12)]
        platform.engine.statistics = [
            AddressStatistics(name, "default.default", name, stored_bytes=count)
            for name, count in stored
        ]
        task = asyncio.ensure_future(platform.recorder.run())
        async for event in platform.store.watch(platform.store.version):
            found = event.resource
            if isinstance(found, AddressSpace) and found.status.usage:
                break
        assert platform.clock.elapsed_s >= SAVE_S
        (record,) = platform.space().status.usage or ()
        assert (record.messages_in, record.stored_bytes) == (7, 42)
        platform.engine.carried = [statistics(9)._replace(uid=uid)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        (record,) = platform.space().status.usage or ()
        assert record.messages_in == 9


class Watched(UsageFile):
    """A usage file that records its writes."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.file = file
        self.texts: list[str] = []
        self.wrote = asyncio.Event()

    def write(self, records: Records) -> None:
        super().write(records)
        if self.file.exists():
            self.texts.append(self.file.read_text())
            self.wrote.set()


async def test_shutdown_completes_when_the_store_does_not_respond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enmasse.control.recorder.LAST_SAVE_S", 0.05)
    interim = Watched(tmp_path / "usage.json")
    platform = Platform(interim)
    await platform.declare(messages=1000)
    async with platform.running():
        uid = platform.space().metadata.uid or ""
        platform.engine.carried = [statistics(7)._replace(uid=uid)]
        task = asyncio.ensure_future(platform.recorder.run())
        await interim.wrote.wait()
        platform.engine.carried = [statistics(9)._replace(uid=uid)]
        # The store is blocked: no other writer gets a turn, or an error.
        async with platform.store.turn(), asyncio.timeout(20):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert platform.messages_in() == 0
        (record,) = interim.read()[uid]
        assert record.messages_in == 9


async def test_killed_process_recovers_usage_from_the_interim_file(tmp_path: Path) -> None:
    file = tmp_path / "usage.json"
    interim = Watched(file)
    platform = Platform(interim)
    await platform.declare(messages=1000)
    async with platform.running():
        uid = platform.space().metadata.uid or ""
        platform.engine.carried = [statistics(7)._replace(uid=uid)]
        task = asyncio.ensure_future(platform.recorder.run())
        await interim.wrote.wait()
        left = interim.texts[0]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not file.exists(), "the status has the whole usage"
    # The state after a kill: the status is older than the file.
    file.write_text(left)
    bare = platform.space().with_status(platform.space().status.model_copy(update={"usage": None}))
    await platform.store.put_status([bare])
    for _ in range(2):
        platform.start(UsageFile(file))
        async with platform.running():
            await platform.manager.usage.save()
            assert platform.messages_in() == 7, "reading the file twice does not add it twice"
    await platform.carries_once(5)
    assert platform.messages_in() == 12


@pytest.mark.parametrize("text", ["", "[]", '{"s": 1}', '{"s": [{"period": 3}]}', "{\xff"])
def test_malformed_interim_usage_file_is_ignored(tmp_path: Path, text: str) -> None:
    file = tmp_path / "usage.json"
    file.write_bytes(text.encode("latin-1"))
    assert UsageFile(file).read() == {}


def test_failed_write_of_the_interim_file_is_logged_once_and_retried(tmp_path: Path) -> None:
    file = tmp_path / "away" / "usage.json"
    interim, records = UsageFile(file), {"s": (Usage(period="2026-12", messages_in=3),)}
    with capture_logs() as said:
        # A disk may be full for hours.
        for _ in range(100):
            interim.write(records)
    assert [one["event"] for one in said] == ["usage is not kept"]
    file.parent.mkdir()
    interim.write(records)
    assert UsageFile(file).read() == records
    assert file.stat().st_mode & 0o777 == 0o600
    interim.write({})
    assert not file.exists()


def test_larger_of_saved_and_interim_usage_is_recovered() -> None:
    before = book()
    before.count([statistics(10, connections=3)], lambda _: None, NOON)
    written = before.with_usage(space(uid="s"), None, None, NOON)
    before.saved(before.unsaved())
    assert before.unsaved_periods() == {}
    before.count([statistics(15, connections=2)], lambda _: None, NOON)
    before.count([statistics(16)], lambda _: None, NOON.replace(year=2027))
    kept = before.unsaved_periods()
    assert [one.period for one in kept["s"]] == ["2027-12", "2026-12"]
    after = UsageBook()
    after.recover(kept)
    after.open(written)
    assert records(after) == [("2027-12", 1), ("2026-12", 15)]
    (_, old) = after.with_usage(space(uid="s"), None, None, NOON).status.usage or ()
    assert old.connections == 3


async def test_idle_platform_writes_no_usage(tmp_path: Path) -> None:
    file = tmp_path / "usage.json"
    platform = Platform(UsageFile(file))
    await platform.declare(messages=1000)
    async with platform.running():
        await platform.carries(7)
        await platform.manager.usage.save()
        version, judged = platform.store.version, []
        platform.manager.usage._book.exhausted = lambda *_: judged.append(1) or {}  # type: ignore[method-assign, func-returns-value]
        for _ in range(3):
            platform.manager.usage.note(await platform.engine.usage())
            await platform.manager.usage.save()
        assert (platform.store.version, judged, file.exists()) == (version, [], False)


async def test_usage_of_a_failed_save_is_saved_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    platform = Platform()
    await platform.declare(messages=1000)
    async with platform.running():
        uid = platform.space().metadata.uid or ""
        platform.manager.usage.note([statistics(7)._replace(uid=uid)])

        async def fails(_: object) -> None:
            raise Unavailable(Code.NOT_AVAILABLE, "the disk is away")

        with monkeypatch.context() as patched:
            patched.setattr(platform.store, "put_status", fails)
            with pytest.raises(Unavailable):
                await platform.manager.usage.save()
        await platform.manager.usage.save()
        usage = platform.space().status.usage
        assert usage is not None and usage[0].messages_in == 7


async def test_recreated_space_inherits_the_usage_of_its_predecessor() -> None:
    platform = Platform()
    await platform.declare(period="day", messages=100)
    async with platform.running():
        await platform.carries(60)
        uid = platform.space().metadata.uid or ""
        # Usage that was not sampled before the deletion counts as well.
        platform.engine.carried = [statistics(100)._replace(uid=uid)]
        await platform.admission.delete(SPACE)
        await platform.manager.reached(platform.store.version)
        await platform.admission.apply([space(plan="p")])
        await platform.manager.reached(platform.store.version)
        assert platform.exhausted(), "before any client can connect"
        assert platform.messages_in() == 100
        await platform.admission.delete(SPACE)
        await platform.manager.reached(platform.store.version)
    # The same holds after a restart.
    platform.start()
    async with platform.running():
        await platform.admission.apply([space(plan="p")])
        await platform.manager.reached(platform.store.version)
        assert platform.exhausted()
        await platform.admission.apply([space("other", plan="p")])
        await platform.manager.reached(platform.store.version)
        assert not platform.engine.plan.spaces[1].limits.exhausted, "another name, another record"
        platform.clock.advance(12 * 3600)
        await platform.settled()
        assert not any(one.limits.exhausted for one in platform.engine.plan.spaces), "next day"
        await platform.manager.usage.save()
        assert [one.metadata.name for one in platform.store.list("ConfigMap")] == []


async def test_deleted_usage_keeps_the_spaces_with_the_most_bytes() -> None:
    store = MemoryStore(TestClock(NOON))
    departed = DeletedUsage(store)
    for number in range(NAMES_MAX + 10):
        used = Usage(period="2026-12", messages_in=1, bytes_in=number)
        departed.note(("default", f"s{number}"), [used], NOON)
    departed.note(("default", "idle"), [Usage(period="2026-12")], NOON)
    departed.note(("default", "old"), [Usage(period="2026-11", messages_in=1)], NOON)
    await departed.write(NOON)
    (kept,) = store.list("ConfigMap")
    assert isinstance(kept, ConfigMap)
    assert set(kept.data) == {f"s{number}" for number in range(10, NAMES_MAX + 10)}
    assert sum(map(len, kept.data.values())) < DATA_BYTES_MAX
    again = DeletedUsage(store)
    again.read()
    assert again.of(("default", "s10")) == departed.of(("default", "s10")) != ()
    assert again.of(("default", "s9")) == again.of(("other", "s10")) == ()


async def test_space_deleted_during_a_write_is_saved_by_the_next_write() -> None:
    store = MemoryStore(TestClock(NOON))
    departed = DeletedUsage(store)
    used = [Usage(period="2026-12", messages_in=1)]
    departed.note(("default", "first"), used, NOON)
    async with store.turn():
        # Another writer has the turn: the write waits with the records of this moment.
        writing = asyncio.ensure_future(departed.write(NOON))
        await asyncio.sleep(0)
        departed.note(("default", "second"), used, NOON)
    await writing
    await departed.write(NOON)
    (kept,) = store.list("ConfigMap")
    assert isinstance(kept, ConfigMap)
    assert set(kept.data) == {"first", "second"}


async def test_malformed_deleted_usage_record_is_ignored() -> None:
    store = MemoryStore(TestClock(NOON))
    for text in ("", "[1]", '[{"period": 3}]', "3"):
        metadata = NamedMetadata(name="usage.default", namespace="enmasse-infra")
        await store.put([ConfigMap(metadata=metadata, data={"s": text})])
        departed = DeletedUsage(store)
        departed.read()
        assert departed.of(("default", "s")) == ()
