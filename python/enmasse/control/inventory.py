"""The inventory of declared resources as of the last pass: what exists, and what has changed since.

Reconcilers learn here which resource has a uid, because engine and certificates identify spaces and
addresses by uid.
"""

from collections.abc import Iterable
from typing import NamedTuple

from enmasse.plan import PLATFORM
from enmasse.resources import AddressSpace, Declared, Key, Resource
from enmasse.store import EventType, Store, changed_keys
from enmasse.store.protocol import Event

ATTACHED = ("ConfigMap", "Secret", "Service")
"""Kinds that belong to spaces and users, and are not declared resources themselves."""

Identity = tuple[str | None, int | None]
"""uid and generation: they change when more than a status or a label changes."""


class Change(NamedTuple):
    """A change of a declared resource since the last pass."""

    key: Key
    resource: Declared | None
    """Its present state; None: deleted."""

    ended_uid: str | None
    """uid of the resource that had this key before, if that one was deleted."""


class Pending(NamedTuple):
    """Keys that may have changed up to a version of the store."""

    version: int
    keys: set[Key]


class Inventory:
    """Identities of the declared resources, compared with a store."""

    def __init__(self, store: Store) -> None:
        """Empty before the first `take`."""
        self._store = store
        self._version: int | None = None
        """Version of the store up to which changes have been taken."""

        self._identities: dict[Key, Identity] = {}
        self._by_uid: dict[str, Key] = {}

    @property
    def is_new(self) -> bool:
        """Whether nothing has been taken yet."""
        return self._version is None

    def keys(self, kind: str | None = None) -> set[Key]:
        """Return the keys of all declared resources, or of those of a kind."""
        return {key for key in self._identities if kind in (None, key.kind)}

    def key_of(self, uid: str) -> Key | None:
        """Return the key of the resource with a uid."""
        return self._by_uid.get(uid)

    def keys_of(self, uids: Iterable[str]) -> set[Key]:
        """Return the keys of the resources with some uids; unknown ones are skipped."""
        return {self._by_uid[uid] for uid in uids if uid in self._by_uid}

    def spaces(self, keys: Iterable[Key], uids: Iterable[str]) -> list[AddressSpace]:
        """Return the address spaces among some keys, and those of some uids."""
        wanted = {key for key in keys if key.kind == "AddressSpace"} | self.keys_of(uids)
        found = [self._store.get(key) for key in sorted(wanted)]
        return [one for one in found if isinstance(one, AddressSpace)]

    def concerns(self, event: Event) -> bool:
        """Whether an event of the store is more than a status that the control plane wrote."""
        resource = event.resource
        if not isinstance(resource, Declared):
            return resource.kind in ATTACHED or resource.key == PLATFORM
        known = self._identities.get(resource.key)
        return event.type is EventType.DELETED or known != _identity(resource)

    def pending(self) -> Pending:
        """Return the keys that may have changed since the last `take`."""
        version = self._store.version
        changed = changed_keys(self._store, self._version)
        if changed is None:
            changed = {PLATFORM, *self._identities, *(one.key for one in self._store.list())}
        return Pending(version, changed)

    def ended_spaces(self, keys: Iterable[Key]) -> set[Key]:
        """Return the address spaces among some keys that were deleted or replaced."""
        return {key for key in keys if key.kind == "AddressSpace" and self._ends(key)}

    def _ends(self, key: Key) -> bool:
        known = self._identities.get(key)
        found = self._store.get(key) if known else None
        return known is not None and (found is None or found.metadata.uid != known[0])

    def advance(self, version: int) -> None:
        """Record that changes up to a version are being taken."""
        self._version = version

    def take(self, keys: Iterable[Key]) -> list[Change]:
        """Return the declared resources of some keys that have changed, and record their state."""
        changes = (self._take(key) for key in keys)
        return [change for change in changes if change is not None]

    def _take(self, key: Key) -> Change | None:
        found = self._store.get(key)
        resource = found if isinstance(found, Declared) else None
        now = _identity(resource) if resource else None
        before = self._identities.get(key)
        if now == before:
            return None
        ended = before[0] if before and (now is None or now[0] != before[0]) else None
        if ended is not None:
            self._by_uid.pop(ended, None)
        if now is None:
            self._identities.pop(key, None)
        else:
            self._identities[key] = now
            if now[0] is not None:
                self._by_uid[now[0]] = key
        return Change(key, resource, ended)


def _identity(resource: Resource) -> Identity:
    return resource.metadata.uid, resource.metadata.generation
