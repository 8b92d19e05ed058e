"""Where resources live: versions, a watch, and the data folder.

`Store` says what every store does; `MemoryStore` keeps nothing over a restart; `SqliteStore`, in
`enmasse.store.sqlite`, has every change on disk before anyone sees it. `DataDir` is the folder and
its lock.
"""

from enmasse.store.data_dir import DataDir
from enmasse.store.memory import MemoryStore
from enmasse.store.protocol import Event, EventType, Store

__all__ = ["DataDir", "Event", "EventType", "MemoryStore", "Store"]
