"""Keeps the declared state of a process equal to its store.

Admission and the compiler read the same state, so it never contains undecided requests: they are
decided in overlays, and enter the state once they are in the store.
"""

from enmasse.plan import DeclaredState
from enmasse.resources import Declared, Key, Resource
from enmasse.store import Store, changed_keys


class StoreState:
    """The declared state of a store, brought up to date on demand."""

    def __init__(self, store: Store) -> None:
        """Empty before the first `current`."""
        self._store = store
        self._state = DeclaredState()
        self._version: int | None = None
        """Version of the store up to which changes are applied."""

    @property
    def followed(self) -> DeclaredState:
        """The state as of the last `current`, to follow its changes."""
        return self._state

    def current(self) -> DeclaredState:
        """Return the state as the store is now.

        Most changes are statuses, which no rule reads: they cost a look-up each.
        """
        version = self._store.version
        if version == self._version:
            return self._state
        for key in self._changed():
            self._apply(key, self._store.get(key))
        self._version = version
        return self._state

    def _changed(self) -> set[Key]:
        """Return the keys that may have changed since the last call."""
        changed = changed_keys(self._store, self._version)
        if changed is None:
            return {*self._state.keys(), *(one.key for one in self._store.list())}
        return changed

    def _apply(self, key: Key, now: Resource | None) -> None:
        before = self._state.get(key)
        if now is before:
            return
        if now is not None and before is not None and _declares_the_same(before, now):
            self._state.restate(now)
        else:
            self._state.put(key, now)


def _declares_the_same(before: Resource, now: Resource) -> bool:
    """Whether both are one resource of one generation: only a status or metadata differ."""
    if not isinstance(before, Declared) or not isinstance(now, Declared):
        return False
    same = before.metadata.generation == now.metadata.generation
    return same and before.metadata.uid == now.metadata.uid is not None
