"""The reconciler of usage: records, allowances, and the usage of deleted spaces."""

import asyncio

import pytest

from doubles import space
from enmasse.control.reconcilers import UsageReconciler
from enmasse.engines import SpaceStatistics
from enmasse.resources import AddressSpace, Key
from enmasse.resources.address_space_plan import Allowance
from reconciler_setup import Surroundings

SPACE = Key("AddressSpace", "default", "default")
TEN = Allowance(period="day", messages=10)


@pytest.fixture
def given() -> Surroundings:
    return Surroundings()


@pytest.fixture
def allowances() -> dict[Key, Allowance]:
    return {SPACE: TEN}


@pytest.fixture
def usage(given: Surroundings, allowances: dict[Key, Allowance]) -> UsageReconciler:
    return UsageReconciler(
        given.store, given.engine, given.clock, allowances.get, given.queue, asyncio.Lock()
    )


async def declared(given: Surroundings, usage: UsageReconciler) -> str:
    """Declare the space; return its uid."""
    for change in await given.declare(space()):
        usage.declare(change)
    return given.uid(SPACE)


def traffic(uid: str, messages: int) -> SpaceStatistics:
    return SpaceStatistics(uid, "default", messages_in=messages)


async def is_due(given: Surroundings) -> bool:
    waiting = asyncio.ensure_future(given.queue.wait(3600))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    due = waiting.done()
    waiting.cancel()
    return due


async def test_exhausted_allowance_requests_a_pass_and_takes_effect_in_it(
    given: Surroundings, usage: UsageReconciler
) -> None:
    uid = await declared(given, usage)
    usage.note([traffic(uid, 9)])
    assert not await is_due(given)
    usage.note([traffic(uid, 10)])
    assert await is_due(given)
    assert usage.exhausted == [], "the pass decides"
    assert usage.decide_exhausted() == {SPACE}
    assert usage.exhausted == [SPACE]
    assert usage.decide_exhausted() == set(), "nothing has changed since"


async def test_larger_allowance_makes_the_space_available_again(
    given: Surroundings, usage: UsageReconciler, allowances: dict[Key, Allowance]
) -> None:
    uid = await declared(given, usage)
    usage.note([traffic(uid, 10)])
    usage.decide_exhausted()
    allowances[SPACE] = Allowance(period="day", messages=100)
    assert usage.decide_exhausted() == {SPACE}
    assert usage.exhausted == []


async def test_usage_is_saved_into_the_status(given: Surroundings, usage: UsageReconciler) -> None:
    uid = await declared(given, usage)
    usage.note([traffic(uid, 4)])
    assert [one.messages_in for one in usage.unsaved()[uid]] == [4]
    await usage.save()
    found = given.store.get(SPACE)
    assert isinstance(found, AddressSpace) and found.status.usage
    assert found.status.usage[0].messages_in == 4
    assert usage.unsaved() == {}


async def test_a_space_of_the_same_name_continues_the_usage(
    given: Surroundings, usage: UsageReconciler
) -> None:
    uid = await declared(given, usage)
    usage.note([traffic(uid, 10)])
    for change in await given.delete(SPACE):
        usage.declare(change)
    await usage.write_ended()
    again = UsageReconciler(
        given.store, given.engine, given.clock, {SPACE: TEN}.get, given.queue, asyncio.Lock()
    )
    again.read_ended()
    await declared(given, again)
    assert again.decide_exhausted() == {SPACE}, "an allowance is not used twice"


async def test_stored_bytes_are_attributed_by_the_full_space_name(
    given: Surroundings, usage: UsageReconciler
) -> None:
    uid = await declared(given, usage)
    usage.note_stored({"default.default": 70, "other.default": 9})
    assert [one.stored_bytes for one in usage.unsaved()[uid]] == [70]
