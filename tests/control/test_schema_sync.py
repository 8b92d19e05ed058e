"""Schemas of a stand-by process."""

import asyncio

from doubles import TestClock, address, address_plan, infra, space_plan
from enmasse.control.schema_sync import sync_schemas
from enmasse.resources import AddressSpaceSchema
from enmasse.store import MemoryStore


def plans(computed: MemoryStore) -> list[str]:
    found = [one for one in computed.list() if isinstance(one, AddressSpaceSchema)]
    return [plan.name for one in found for plan in one.spec.plans]


async def test_schemas_follow_the_plans_of_the_store() -> None:
    clock = TestClock()
    store, computed = MemoryStore(clock), MemoryStore(clock)
    small = address_plan("small", "queue", broker=0.5)
    await store.put([infra(), small, space_plan("first", [small], (1, 1, 2))])
    showing = asyncio.create_task(sync_schemas(store, computed))
    events = computed.watch(0)
    async with asyncio.timeout(10):
        await anext(events)
        assert plans(computed) == ["first"]
        written = computed.version
        await store.put([address()])
        await store.put([space_plan("second", [small], (1, 1, 2))])
        while computed.version == written:
            await anext(events)
        assert sorted(plans(computed)) == ["first", "second"]
    showing.cancel()
