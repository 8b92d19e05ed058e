"""The changes in a store, for components that keep a copy of its state."""

from enmasse.base.errors import Code, Conflict
from enmasse.resources import Key
from enmasse.store.protocol import Store


def changed_keys(store: Store, since: int | None) -> set[Key] | None:
    """Return the keys of the resources that changed after version `since`.

    None: list all resources, because `since` is None or its next change has been compacted.
    """
    if since is None:
        return None
    try:
        return {event.resource.key for event in store.changes(since)}
    except Conflict as error:
        if error.code != Code.VERSION_EXPIRED:
            raise
        return None
