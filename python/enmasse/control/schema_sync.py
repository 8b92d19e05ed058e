"""Publishes the schemas in a stand-by process without a shared store for them."""

from enmasse.base.errors import Code, Conflict
from enmasse.control.address_space_schema import schemas
from enmasse.plan import CATALOGUED, Catalogue
from enmasse.store import Store


async def sync_schemas(store: Store, computed: Store) -> None:
    """Derive the schemas in `computed` from the resources in `store`, until cancelled."""
    while True:
        since = store.version
        await computed.put(schemas(Catalogue(store.list())))
        try:
            async for event in store.watch(since):
                if isinstance(event.resource, CATALOGUED):
                    break
        except Conflict as error:
            if error.code != Code.VERSION_EXPIRED:
                raise
