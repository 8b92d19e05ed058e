"""The keys of changed resources, or None if all must be listed."""

from collections.abc import Sequence

import pytest

import doubles
from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Conflict
from enmasse.store import Event, MemoryStore, changed_keys


class Failing(MemoryStore):
    """A store whose changes cannot be read."""

    def __init__(self, code: Code) -> None:
        super().__init__(SystemClock())
        self._code = code

    def changes(self, since: int) -> Sequence[Event]:
        raise Conflict(self._code, "no changes")


async def test_the_keys_of_later_changes_are_returned() -> None:
    store = MemoryStore(SystemClock())
    (first,) = await store.put([doubles.address("default.a")])
    since = store.version
    (second,) = await store.put([doubles.address("default.b")])
    assert changed_keys(store, since) == {second.key}
    assert first.key != second.key
    assert changed_keys(store, store.version) == set()


def test_changed_keys_is_none_at_first_and_when_the_version_expired() -> None:
    assert changed_keys(MemoryStore(SystemClock()), None) is None
    assert changed_keys(Failing(Code.VERSION_EXPIRED), 1) is None
    with pytest.raises(Conflict):
        changed_keys(Failing(Code.STATE_CONFLICT), 1)
