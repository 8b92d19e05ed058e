"""What is written down about resources."""

from datetime import UTC, datetime

from doubles import TestClock, address
from enmasse.control import Events
from enmasse.control.events import AT_ONCE_MAX, Happened, happened
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


def test_only_what_is_new_has_happened() -> None:
    first = decided(address(), "Pending", "SpaceAbsent", "there is no space")
    assert happened(address(), address()) is None
    news = happened(address(), first)
    assert news is not None
    assert (news.reason, news.message, news.is_warning) == (
        "SpaceAbsent", "there is no space", True,
    )  # fmt: skip
    assert happened(first, decided(first, "Pending", "SpaceAbsent", "there is no space")) is None
    ready = happened(first, decided(first, "Active", "Served"))
    assert ready is not None
    assert not ready.is_warning


async def test_what_happens_again_is_counted() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    events = Events(store, clock)
    news = Happened(address(uid="u"), "Served", "it is served", False)
    await events.record([news])
    clock.advance(60)
    await events.record([news, news])
    (event,) = store.list()
    assert isinstance(event, Event)
    assert event.count == 3
    assert event.first_timestamp == "2026-01-01T00:00:00Z"
    assert event.last_timestamp == "2026-01-01T00:01:00Z"


async def test_the_oldest_goes_when_there_are_too_many() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    events = Events(store, clock, maximum=2)
    for number in range(4):
        await events.record([Happened(address(uid="u"), f"R{number}", "", True)])
    kept = [one.reason for one in store.list() if isinstance(one, Event)]
    assert sorted(kept) == ["R2", "R3"]


async def test_of_what_happens_at_one_moment_warnings_are_written_first() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    news = [Happened(address(uid="u"), f"R{number}", "", False) for number in range(AT_ONCE_MAX)]
    await Events(store, clock).record([*news, Happened(address(uid="u"), "Bad", "", True)])
    kept = [one.reason for one in store.list() if isinstance(one, Event)]
    assert len(kept) == AT_ONCE_MAX
    assert "Bad" in kept


async def test_the_longest_name_still_has_room() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    name = "default." + ".".join(["a" * 60] * 4)
    await Events(store, clock).record([Happened(address(name, address="a"), "R", "", False)])
    (event,) = store.list()
    assert len(event.metadata.name) <= 253


async def test_who_goes_on_from_what_is_there_counts_and_forgets_it_too() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    first = Happened(address(uid="u"), "Served", "it is served", False)
    await Events(store, clock, maximum=2).record([first])
    clock.advance(60)
    other = Events(store, clock, maximum=2)
    await other.record([first])
    (event,) = store.list()
    assert isinstance(event, Event) and event.count == 2
    await other.record([Happened(address(uid="u"), f"R{number}", "", True) for number in (1, 2)])
    kept = [one.reason for one in store.list() if isinstance(one, Event)]
    assert sorted(kept) == ["R1", "R2"]


async def test_a_namespace_with_many_events_drives_out_its_own() -> None:
    clock = TestClock()
    store = MemoryStore(clock)
    events = Events(store, clock, maximum=4)
    quiet = address(uid="q").with_metadata(namespace="quiet")
    await events.record([Happened(quiet, "Served", "", False)])
    for number in range(20):
        await events.record([Happened(address(uid="u"), f"R{number}", "", True)])
    kept = {one.reason for one in store.list() if isinstance(one, Event)}
    assert kept == {"Served", "R17", "R18", "R19"}
