"""Where resources live, with versions and a watch.

`Store` says what every store does; `MemoryStore` keeps nothing over a restart; `SqliteStore`, in
`enmasse.store.sqlite`, has every change on disk before anyone sees it; `PostgresStore`, in
`enmasse.store.postgres`, is one that several processes use at one time, and so is
`KubernetesStore`, in `enmasse.store.kubernetes`, whose resources are those of a cluster.
"""

from enmasse.store.memory import MemoryStore
from enmasse.store.protocol import Event, EventType, Leadership, Store, Turn

__all__ = ["Event", "EventType", "Leadership", "MemoryStore", "Store", "Turn"]
