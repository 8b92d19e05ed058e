"""The loop from store to status, with a store in memory and a fake engine."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from doubles import TestClock, address, deadletter, queue, space, subscription, topic, user
from enmasse.base.errors import Code, Invalid, Unavailable
from enmasse.base.tasks import Backoff
from enmasse.control import Admission, Manager
from enmasse.control.manager import FEW, REST_TIMES, RESYNC_S
from enmasse.control.work_queue import PORTION, Batch
from enmasse.engines import JOURNAL_STOPPED, Failure, Proof
from enmasse.plan import Plan
from enmasse.resources import Declared, Key, Resource, Status
from enmasse.resources.address import TYPES
from enmasse.resources.model import Phase
from enmasse.store import MemoryStore
from enmasse.store.history import CAPACITY
from fake_engine import FakeEngine

ORDERS = Key("Address", "default", "default.orders")


class Platform:
    """A store, an admission, an engine and a manager."""

    def __init__(self) -> None:
        self.clock = clock = TestClock()
        self.store = MemoryStore(clock)
        self.events = MemoryStore(clock)
        self.engine = FakeEngine()
        self.admission = Admission(self.store, exposed=False, served=TYPES)
        self.manager = Manager(self.store, self.engine, clock, self.events, Backoff(0.001, 0.01))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Platform"]:
        task = asyncio.ensure_future(self.manager.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def apply(self, *resources: Resource) -> None:
        await self.admission.apply(resources)
        await self.manager.reached(self.store.version)

    def phase(self, key: Key = ORDERS) -> Phase:
        resource = self.store.get(key)
        assert isinstance(resource, Declared)
        return resource.status.phase

    def planned(self) -> dict[str, list[str]]:
        return {
            planned.names[0]: [address.name for address in planned.addresses]
            for planned in self.engine.plan.spaces
        }


@pytest.fixture
def platform() -> Platform:
    return Platform()


async def test_a_declared_address_becomes_active(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space(), address())
        assert platform.planned() == {"default": ["orders"]}
        assert platform.phase() == "Active"
        assert platform.phase(Key("AddressSpace", "default", "default")) == "Active"


async def test_resources_declared_before_the_start_become_active(platform: Platform) -> None:
    await platform.admission.apply([space(), address(), user()])
    async with platform.running():
        await platform.manager.reached(platform.store.version)
        assert {resource.status.phase for resource in platform.store.list()} == {"Active"}


async def test_deleting_the_last_space_leaves_an_empty_plan(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space())
        await platform.admission.delete(Key("AddressSpace", "default", "default"))
        await platform.manager.reached(platform.store.version)
        assert platform.planned() == {}


async def test_change_without_effect_on_the_plan_is_not_applied(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space(), address())
        count = len(platform.engine.applied)
        await platform.apply(address(labels={"team": "north"}))
        assert len(platform.engine.applied) == count


async def test_plan_versions_strictly_increase(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space())
        for number in range(5):
            await platform.apply(address(f"default.a{number}"))
        versions = [plan.version for plan in platform.engine.applied]
        assert versions == sorted(set(versions))


async def test_refused_plan_is_reported_and_retried(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space())
        platform.engine.refusals = [Unavailable(Code.NOT_AVAILABLE, "busy")] * 3
        events = platform.store.watch(platform.store.version)
        await platform.admission.apply([address()])
        said = None
        async for event in events:
            if event.resource.key == ORDERS and event.resource.status.messages:
                said = event.resource.status.messages
            if event.resource.key == ORDERS and event.resource.status.is_ready:
                break
        assert said == ("the node does not serve it yet: busy",)
        assert platform.planned() == {"default": ["orders"]}


async def test_new_change_is_served_without_waiting_for_the_back_off(platform: Platform) -> None:
    platform.manager = Manager(
        platform.store,
        platform.engine,
        TestClock(),
        MemoryStore(TestClock()),
        Backoff(first_s=3600, limit_s=3600),
    )
    async with platform.running():
        await platform.apply(space())
        platform.engine.refusals = [Unavailable(Code.NOT_AVAILABLE, "busy")]
        events = platform.store.watch(platform.store.version)
        await platform.admission.apply([address()])
        async for event in events:
            if event.resource.status.messages:
                break
        await platform.apply(address("default.more"))
        assert platform.phase() == "Active"


async def test_a_bug_in_a_pass_does_not_end_the_loop(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with platform.running():
        await platform.apply(space())
        apply, calls = platform.engine.apply, []

        async def broken_once(plan: object) -> object:
            calls.append(plan)
            if len(calls) == 1:
                raise ZeroDivisionError
            return await apply(plan)  # type: ignore[arg-type]

        monkeypatch.setattr(platform.engine, "apply", broken_once)
        await platform.apply(address())
        assert len(calls) == 2
        assert platform.phase() == "Active"


async def test_large_passes_are_followed_by_a_rest(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, began = platform.engine.apply, []

    async def slow(plan: Plan) -> Proof:
        began.append(platform.clock.monotonic())
        platform.clock.advance(0.05)
        return await apply(plan)

    monkeypatch.setattr(platform.engine, "apply", slow)

    def some(name: str, count: int) -> list[Resource]:
        return [address(f"default.{name}{number}") for number in range(count)]

    async with platform.running():
        await platform.apply(space())
        for name in "abc":
            await platform.apply(*some(name, FEW + 1))
        await platform.apply(*some("d", 1))
        await platform.apply(*some("e", 1))
    passes = [after - before for before, after in pairwise(began)]
    alone, crowded = 0.05, 0.05 * (1 + REST_TIMES)
    assert passes == pytest.approx([alone, crowded, crowded, crowded, alone])


async def test_address_is_active_only_once_the_proof_names_it(platform: Platform) -> None:
    async with platform.running():
        await platform.admission.apply([space(), address()])
        made = platform.store.get(ORDERS)
        assert made is not None
        platform.engine.unserved = {made.metadata.uid or ""}
        await platform.manager.reached(platform.store.version)
        assert platform.phase() == "Configuring"
        platform.engine.unserved = set()
        await platform.apply(address("default.more"))
        assert platform.phase() == "Active"


async def test_duplicate_address_becomes_active_when_the_older_is_deleted(
    platform: Platform,
) -> None:
    twin = address("default.twin", address="orders")
    # Written past admission, as by another process that shares the store.
    await platform.store.put([space(), address(), twin])
    async with platform.running():
        await platform.manager.reached(platform.store.version)
        assert (platform.phase(), platform.phase(twin.key)) == ("Active", "Pending")
        await platform.admission.delete(ORDERS)
        await platform.manager.reached(platform.store.version)
        assert platform.phase(twin.key) == "Active"


async def test_address_with_a_deleted_dead_letter_is_pending_and_still_planned(
    platform: Platform,
) -> None:
    async with platform.running():
        await platform.apply(space(), deadletter(), queue(deadletter="dead"))
        assert platform.phase() == "Active"
        await platform.admission.delete(deadletter().key)
        await platform.manager.reached(platform.store.version)
        # The address stays in the Plan; otherwise the node would drop its messages.
        assert platform.planned() == {"default": ["orders"]}
        waiting = platform.store.get(ORDERS)
        assert waiting is not None
        assert waiting.status.phase == "Pending"
        assert waiting.status.is_ready is False
        assert waiting.status.conditions[0].reason == "DeadletterMissing"
        assert waiting.status.messages == (
            "references a dead letter address 'dead' that does not exist",
        )
        await platform.apply(deadletter())
        assert platform.phase() == "Active"


async def test_status_shows_the_effective_ttl_and_redelivery(platform: Platform) -> None:
    def told(resource: Resource) -> dict[str, object]:
        found = platform.store.get(resource.key)
        assert found is not None
        names = ("messageTtl", "messageRedelivery", "subscription")
        status = found.document()["status"]
        return {name: status[name] for name in names if name in status}

    async with platform.running():
        dead = deadletter()
        news, night = topic(messageTtl={"maximum": 60_000}), subscription(max_consumers=2)
        await platform.apply(space(), dead, queue(deadletter="dead"), news, night)
        ten = {
            "maximumDeliveryAttempts": 10,
            "redeliveryDelay": 0,
            "redeliveryDelayMultiplier": 1.0,
        }
        assert told(queue()) == {"messageRedelivery": ten}
        assert told(night) == {
            "messageTtl": {"maximum": 60_000},
            "subscription": {"maxConsumers": 2},
        }
        await platform.apply(topic(messageTtl={"minimum": 10}))
        assert told(night)["messageTtl"] == {"minimum": 10}
        await platform.admission.delete(dead.key)
        await platform.manager.reached(platform.store.version)
        assert told(queue()) == {"messageRedelivery": ten | {"maximumDeliveryAttempts": -1}}
        await platform.apply(queue(), topic())
        assert told(queue()) == {}
        assert told(night) == {"subscription": {"maxConsumers": 2}}


async def test_more_changes_than_the_watch_history_are_all_served(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space())
        await platform.apply(*(address(f"default.a{number}") for number in range(CAPACITY + 1)))
        assert len(platform.planned()["default"]) == CAPACITY + 1
        assert all(
            one.status.is_ready for one in platform.store.list() if isinstance(one, Declared)
        )


async def test_concurrent_changes_are_combined_into_fewer_plans(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space())
        count = len(platform.engine.applied)
        await asyncio.gather(
            *(platform.admission.create(address(f"default.a{number}")) for number in range(50))
        )
        await platform.manager.reached(platform.store.version)
        assert len(platform.engine.applied) - count < 25


async def test_long_pass_yields_to_other_tasks(platform: Platform) -> None:
    many = [address(f"default.a{number}") for number in range(4 * PORTION)]
    await platform.admission.apply([space(), *many])
    passing = asyncio.ensure_future(platform.manager.catch_up())
    turns = 0
    while not passing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 8
    assert {resource.status.phase for resource in platform.store.list()} == {"Active"}


async def test_failed_address_reports_its_reason_and_delays_no_other(platform: Platform) -> None:
    news = Key("Address", "default", "default.news")
    async with platform.running():
        await platform.apply(space(), address())
        uid = platform.store.get(ORDERS).metadata.uid
        assert uid is not None
        platform.engine.failed = {uid: Failure("NotOpened", "no room for it")}
        await platform.apply(user(), address("default.news"))
        assert platform.phase(news) == "Active"
        orders = platform.store.get(ORDERS)
        assert isinstance(orders, Declared)
        assert (orders.status.phase, orders.status.messages) == ("Failed", ("no room for it",))
        platform.engine.failed = {}
        await until(platform, lambda: platform.phase() == "Active")


async def test_stopped_journal_fails_its_addresses_without_a_new_plan(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space(), address())
        applied, proved = len(platform.engine.applied), platform.engine.proved
        uid = platform.store.get(ORDERS).metadata.uid
        assert uid is not None
        platform.engine.failed = {uid: Failure(JOURNAL_STOPPED, "the journal has stopped")}
        platform.manager.plan.request_confirmation()
        await until(platform, lambda: platform.phase() == "Failed")
        assert platform.engine.proved == proved + 1
        assert len(platform.engine.applied) == applied, "a retry cannot help"
        await platform.apply(address("default.news"))
        assert platform.phase(Key("Address", "default", "default.news")) == "Active"
        assert platform.phase() == "Failed"


async def test_failed_status_write_is_repeated_by_the_next_pass(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_status = platform.store.put_status
    failures = iter([Unavailable(Code.STORE_UNUSABLE, "the database is away")])

    async def fails_once(resources: Sequence[Declared]) -> None:
        for failure in failures:
            raise failure
        await put_status(resources)

    async with platform.running():
        await platform.apply(space())
        monkeypatch.setattr(platform.store, "put_status", fails_once)
        await platform.apply(address())
        assert platform.phase() == "Active"
        assert next(failures, None) is None


async def test_refused_status_delays_no_other_status(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_status = platform.store.put_status
    first, last = "default.a000", "default.b"

    async def refuses(resources: Sequence[Declared]) -> None:
        if any(one.key.name == first for one in resources):
            raise Invalid(Code.FIELD_INVALID, "the definition does not allow it")
        await put_status(resources)

    monkeypatch.setattr(platform.store, "put_status", refuses)
    many = [address(f"default.a{number:03}") for number in range(PORTION)]
    await platform.admission.apply([space(), *many, address(last)])
    async with platform.running():
        await until(platform, lambda: platform.phase(Key("Address", "default", last)) == "Active")
        assert platform.phase(Key("Address", "default", first)) == "Pending"


async def test_periodic_resync_repairs_a_lost_status(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space(), address())
    orders = platform.store.get(ORDERS)
    assert isinstance(orders, Declared)
    await platform.store.put_status([orders.with_status(Status())])
    proved = platform.engine.proved
    await platform.manager.catch_up()
    assert (platform.phase(), platform.engine.proved) == ("Pending", proved)
    platform.clock.advance(RESYNC_S)
    await platform.manager.catch_up()
    assert (platform.phase(), platform.engine.proved) == ("Active", proved + 1)
    await platform.manager.catch_up()
    assert platform.engine.proved == proved + 1, "the next resync is due after another period"


async def test_periodic_resync_reapplies_a_plan_that_the_engine_lost(platform: Platform) -> None:
    async with platform.running():
        await platform.apply(space(), address())
    platform.engine.applied.append(Plan(version=0, spaces=()))
    platform.clock.advance(RESYNC_S)
    await platform.manager.catch_up()
    assert platform.planned() == {"default": ["orders"]}
    assert platform.engine.plan.version > 0


async def test_space_deleted_during_a_pass_is_sampled_before_it_leaves_the_plan(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key("AddressSpace", "default", "default")
    await platform.admission.apply([space(), address()])
    await platform.manager.catch_up()
    plan, usage = platform.manager.plan, platform.manager.usage
    derive, sample, sampled = plan.derive_passwords, usage.sample, []

    async def ends_it(batch: Batch) -> set[Key]:
        await platform.admission.delete(key)
        return await derive(batch)

    async def counted() -> None:
        sampled.append(platform.planned())
        await sample()

    monkeypatch.setattr(plan, "derive_passwords", ends_it)
    monkeypatch.setattr(usage, "sample", counted)
    await platform.manager.catch_up()
    assert sampled == [{"default": ["orders"]}], "once, while the engine still served it"
    assert platform.planned() == {}


async def until(platform: Platform, holds: Callable[[], bool]) -> None:
    """Wait for changes in the store until a condition holds."""
    async with asyncio.timeout(20):
        async for _ in platform.store.watch(0):
            if holds():
                return
