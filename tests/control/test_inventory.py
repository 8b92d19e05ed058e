"""The inventory: the changes of a store since the last pass."""

import pytest

from doubles import TestClock, address, space
from enmasse.control.inventory import Inventory
from enmasse.resources import ConfigMap, Declared, Key, Status
from enmasse.resources.core import NamedMetadata
from enmasse.store import EventType, MemoryStore
from enmasse.store.history import CAPACITY
from enmasse.store.protocol import Event

ORDERS = Key("Address", "default", "default.orders")
SPACE = Key("AddressSpace", "default", "default")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(TestClock())


def taken(inventory: Inventory) -> dict[Key, str | None]:
    """Take all changes; return their keys, with the uids that ended."""
    pending = inventory.pending()
    inventory.advance(pending.version)
    return {change.key: change.ended_uid for change in inventory.take(pending.keys)}


async def test_first_take_returns_everything_and_later_ones_only_changes(
    store: MemoryStore,
) -> None:
    await store.put([space(), address()])
    inventory = Inventory(store)
    assert inventory.is_new
    assert taken(inventory) == {SPACE: None, ORDERS: None}
    assert not inventory.is_new
    assert taken(inventory) == {}
    await store.put([address("default.more")])
    assert list(taken(inventory)) == [Key("Address", "default", "default.more")]
    assert inventory.keys("AddressSpace") == {SPACE}


async def test_status_update_is_no_change(store: MemoryStore) -> None:
    await store.put([space(), address()])
    inventory = Inventory(store)
    taken(inventory)
    stored = store.get(ORDERS)
    assert isinstance(stored, Declared)
    await store.put_status([stored.with_status(Status(phase="Active"))])
    assert not inventory.concerns(store.changes(store.version - 1)[0])
    assert taken(inventory) == {}


async def test_uid_of_a_deleted_or_recreated_resource_is_reported_as_ended(
    store: MemoryStore,
) -> None:
    await store.put([space(), address()])
    inventory = Inventory(store)
    taken(inventory)
    uids = {key: store.get(key).metadata.uid for key in (SPACE, ORDERS)}
    assert inventory.keys_of(["none", uids[ORDERS]]) == {ORDERS}
    await store.delete([ORDERS, SPACE])
    await store.put([space()])
    pending = inventory.pending()
    assert inventory.ended_spaces(pending.keys) == {SPACE}
    assert taken(inventory) == uids
    assert inventory.keys_of(uids.values()) == set()
    new = store.get(SPACE)
    assert inventory.key_of(new.metadata.uid or "") == SPACE
    assert inventory.spaces([ORDERS], [new.metadata.uid or ""]) == [new]


async def test_inventory_finds_changes_after_the_store_history_overflows(
    store: MemoryStore,
) -> None:
    await store.put([space(), address()])
    inventory = Inventory(store)
    taken(inventory)
    await store.delete([ORDERS])
    for number in range(CAPACITY):
        await store.put([space("other", namespace=f"n{number % 2}")])
        await store.delete([Key("AddressSpace", f"n{number % 2}", "other")])
    assert list(taken(inventory)) == [ORDERS]


def test_attached_and_declared_resources_concern_the_inventory(store: MemoryStore) -> None:
    inventory = Inventory(store)
    attached = ConfigMap(metadata=NamedMetadata(name="a", namespace="default"), data={})
    assert inventory.concerns(Event(EventType.ADDED, attached, 1))
    assert inventory.concerns(Event(EventType.ADDED, address(), 1))
