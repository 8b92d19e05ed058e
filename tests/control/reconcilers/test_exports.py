"""The reconciler of exports: they follow the statuses of spaces."""

import pytest

from doubles import document
from enmasse.control.endpoints import PlatformListeners, with_endpoints
from enmasse.control.reconcilers import Exports
from enmasse.control.work_queue import Batch
from enmasse.resources import AddressSpace, ConfigMap, Key, parse
from enmasse.resources.core import NamedMetadata
from reconciler_setup import Surroundings, batch_of

SHOP = Key("AddressSpace", "default", "shop")
EXPORT = Key("ConfigMap", "default", "shop-info")
PLACE = PlatformListeners("mq.example.com", {"amqps": 5671})


@pytest.fixture
def given() -> Surroundings:
    return Surroundings()


@pytest.fixture
def exports(given: Surroundings) -> Exports:
    return Exports(given.store, given.inventory, given.queue)


async def declared(given: Surroundings) -> Batch:
    """Declare a space with an export, and give it the status that the export repeats."""
    export = {"kind": "ConfigMap", "name": "shop-info"}
    endpoint = {"name": "messaging", "service": "messaging", "exports": [export]}
    shop = parse(document("AddressSpace", "shop", {"type": "standard", "endpoints": [endpoint]}))
    changes = await given.declare(shop)
    stored = given.store.get(SHOP)
    assert isinstance(stored, AddressSpace)
    shown = with_endpoints(stored, PLACE, None, None, given.clock.now())
    await given.store.put_status([shown])
    return batch_of(changes)


async def test_no_export_is_written_before_the_listeners_are_known(
    given: Surroundings, exports: Exports
) -> None:
    batch = await declared(given)
    await exports.reconcile(batch)
    assert given.store.get(EXPORT) is None
    exports.set_listeners(PLACE)
    assert given.queue.take().keys == {SHOP}, "every space is reconciled again"
    await exports.reconcile(batch)
    written = given.store.get(EXPORT)
    assert isinstance(written, ConfigMap)
    assert written.data["service.host"] == "mq.example.com"


async def test_object_of_another_owner_is_kept_and_reported(
    given: Surroundings, exports: Exports
) -> None:
    foreign = ConfigMap(metadata=NamedMetadata(name="shop-info", namespace="default"), data={})
    await given.store.put([foreign])
    exports.set_listeners(PLACE)
    await exports.reconcile(await declared(given))
    assert "does not belong to this space" in (exports.problem(SHOP) or "")
    assert given.queue.take().keys == {SHOP}, "its status reports the problem with the next pass"
    await given.store.delete([EXPORT])
    await exports.reconcile(Batch(attached={EXPORT}))
    assert exports.problem(SHOP) is None
    assert given.store.get(EXPORT) is not None


async def test_export_is_deleted_with_its_space(given: Surroundings, exports: Exports) -> None:
    exports.set_listeners(PLACE)
    await exports.reconcile(await declared(given))
    await exports.reconcile(batch_of(await given.delete(SHOP)))
    assert given.store.get(EXPORT) is None
