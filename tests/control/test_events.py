"""Events of resources."""

from datetime import UTC, datetime

from doubles import TestClock, address
from enmasse.control import Events
from enmasse.control.events import AT_ONCE_MAX, EventDetails, event_of_change
from enmasse.resources import Address, Event
from enmasse.resources.conditions import ready_status
from enmasse.resources.model import Phase
from enmasse.store import MemoryStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def decided(resource: Address, phase: Phase, reason: str, message: str = "") -> Address:
    status = ready_status(
        resource.status, phase=phase, reason=reason, message=message, generation=1, now=NOW
    )
    return resource.with_status(status)


def test_only_a_changed_condition_is_an_event() -> None:
    first = decided(address(), "Pending", "SpaceAbsent", "there is no space")
    assert event_of_change(address(), address()) is None
    news = event_of_change(address(), first)
    assert news is not None
    assert (news.reason, news.message, news.is_warning) == (
        "SpaceAbsent", "there is no space", True,
    )  # fmt: skip
    assert (
        event_of_change(first, decided(first, "Pending", "SpaceAbsent", "there is no space"))
        is None
    )
    ready = event_of_change(first, decided(first, "Active", "Served"))
    assert ready is not None
    assert not ready.is_warning


async def test_repeated_event_increments_its_count() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    events = Events(store, clock)
    news = EventDetails(address(uid="u"), "Served", "it is served", False)
    await events.record([news])
    clock.advance(60)
    await events.record([news, news])
    (event,) = store.list()
    assert isinstance(event, Event)
    assert event.count == 3
    assert event.first_timestamp == "2026-01-01T00:00:00Z"
    assert event.last_timestamp == "2026-01-01T00:01:00Z"


async def test_oldest_events_are_deleted_beyond_the_maximum() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    events = Events(store, clock, maximum=2)
    for number in range(4):
        await events.record([EventDetails(address(uid="u"), f"R{number}", "", True)])
    kept = [one.reason for one in store.list() if isinstance(one, Event)]
    assert sorted(kept) == ["R2", "R3"]


async def test_warnings_are_recorded_first_when_events_exceed_the_bound() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    news = [
        EventDetails(address(uid="u"), f"R{number}", "", False) for number in range(AT_ONCE_MAX)
    ]
    await Events(store, clock).record([*news, EventDetails(address(uid="u"), "Bad", "", True)])
    kept = [one.reason for one in store.list() if isinstance(one, Event)]
    assert len(kept) == AT_ONCE_MAX
    assert "Bad" in kept


async def test_event_name_of_the_longest_resource_name_is_valid() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    name = "default." + ".".join(["a" * 60] * 4)
    await Events(store, clock).record([EventDetails(address(name, address="a"), "R", "", False)])
    (event,) = store.list()
    assert len(event.metadata.name) <= 253


async def test_restarted_recorder_counts_and_expires_existing_events() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    first = EventDetails(address(uid="u"), "Served", "it is served", False)
    await Events(store, clock, maximum=2).record([first])
    clock.advance(60)
    other = Events(store, clock, maximum=2)
    await other.record([first])
    (event,) = store.list()
    assert isinstance(event, Event) and event.count == 2
    await other.record(
        [EventDetails(address(uid="u"), f"R{number}", "", True) for number in (1, 2)]
    )
    kept = [one.reason for one in store.list() if isinstance(one, Event)]
    assert sorted(kept) == ["R1", "R2"]


async def test_namespace_with_many_events_displaces_only_its_own() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    events = Events(store, clock, maximum=4)
    quiet = address(uid="q").with_metadata(namespace="quiet")
    await events.record([EventDetails(quiet, "Served", "", False)])
    for number in range(20):
        await events.record([EventDetails(address(uid="u"), f"R{number}", "", True)])
    kept = {one.reason for one in store.list() if isinstance(one, Event)}
    assert kept == {"Served", "R17", "R18", "R19"}
