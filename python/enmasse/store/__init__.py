"""Where resources live, with versions and a watch.

`Store` says what every store does; `MemoryStore` keeps nothing over a restart; `SqliteStore`, in
`enmasse.store.sqlite`, has every change on disk before anyone sees it.
"""

from enmasse.store.memory import MemoryStore
from enmasse.store.protocol import Event, EventType, Store, Turn

__all__ = ["Event", "EventType", "MemoryStore", "Store", "Turn"]
