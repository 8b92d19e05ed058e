"""What can be chosen from, as a process shows it that does not lead and shares no place for it."""

from enmasse.base.errors import Code, Conflict
from enmasse.control.address_space_schema import schemas
from enmasse.plan import CATALOGUED, Catalogue
from enmasse.store import Store


async def show_schemas(store: Store, computed: Store) -> None:
    """Keep in `computed` the schemas of the plans and services in `store`, until cancelled."""
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
