"""Stores of resources, with versions and a watch.

`Store` is the interface. `MemoryStore` is lost at a restart. `SqliteStore` (`enmasse.store.sqlite`)
writes every change to disk before it is visible. `PostgresStore` (`enmasse.store.postgres`) and
`KubernetesStore` (`enmasse.store.kubernetes`) are shared by several processes.
"""

from enmasse.store.changes import changed_keys
from enmasse.store.memory import MemoryStore
from enmasse.store.protocol import Event, EventType, Leadership, Store, Turn

__all__ = ["Event", "EventType", "Leadership", "MemoryStore", "Store", "Turn", "changed_keys"]
