"""The declared state of a process follows its store."""

import pytest

from doubles import TestClock, address, queue, space
from enmasse.control.declared import StoreState
from enmasse.resources import Declared, Key, Status
from enmasse.store import MemoryStore
from enmasse.store.history import CAPACITY

ORDERS = Key("Address", "default", "default.orders")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(TestClock())


async def test_current_state_equals_the_store(store: MemoryStore) -> None:
    declared = StoreState(store)
    await store.put([space(), address()])
    assert declared.followed.get(ORDERS) is None
    assert declared.current().get(ORDERS) is store.get(ORDERS)
    await store.delete([ORDERS])
    assert declared.current().get(ORDERS) is None
    assert declared.current() is declared.followed


async def test_status_update_does_not_notify_followers(store: MemoryStore) -> None:
    declared = StoreState(store)
    await store.put([space(), queue()])
    declared.current()
    told: list[Key] = []
    declared.followed.follow(lambda key, before, now: told.append(key))
    stored = store.get(ORDERS)
    assert isinstance(stored, Declared)
    await store.put_status([stored.with_status(Status(phase="Active"))])
    assert declared.current().get(ORDERS) is store.get(ORDERS)
    assert told == []
    await store.put([queue(messageTtl={"maximum": 5})])
    declared.current()
    assert told == [ORDERS]


async def test_state_is_rebuilt_after_the_store_history_overflows(store: MemoryStore) -> None:
    declared = StoreState(store)
    await store.put([space(), address()])
    declared.current()
    await store.delete([ORDERS])
    for _ in range(CAPACITY):
        await store.put([space("other")])
        await store.delete([Key("AddressSpace", "default", "other")])
    assert declared.current().get(ORDERS) is None
    assert set(declared.current().keys()) == {one.key for one in store.list()}
