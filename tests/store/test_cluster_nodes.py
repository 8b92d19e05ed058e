"""Which Leases of a cluster are silent, on the observer's own clock."""

from typing import Any, cast

from doubles import TestClock
from enmasse.store.cluster_api import ClusterApi
from enmasse.store.cluster_nodes import BEAT_S, ClusterNodes
from enmasse.store.nodes import SILENT_S, Heartbeat, Identity

A = Identity("a", "uid-a", 1, "mark")


class Leases:
    """The only Lease of a cluster, which changes when told."""

    namespace = "enmasse"

    def __init__(self) -> None:
        self.version = 1
        self.lease: dict[str, Any] = {}

    async def list(self, _: str, **__: str) -> tuple[list[dict[str, Any]], int]:
        metadata = self.lease["metadata"] | {"resourceVersion": str(self.version)}
        return [self.lease | {"metadata": metadata}], self.version


class Observer:
    """A process that lists the nodes of a cluster."""

    def __init__(self) -> None:
        self.clock = TestClock()
        self.leases = Leases()
        self.nodes = ClusterNodes(cast(ClusterApi, self.leases), self.clock)
        self.leases.lease = self.nodes._lease(A, "here", Heartbeat())

    async def silent_s(self, after_s: float) -> float | None:
        self.clock.advance(after_s)
        (found,) = await self.nodes.list()
        return found.silent_s


async def test_lease_that_changes_while_it_is_observed_is_fresh() -> None:
    observer = Observer()
    assert await observer.silent_s(0) is None
    observer.leases.version += 1
    assert await observer.silent_s(BEAT_S) == 0.0
    assert await observer.silent_s(SILENT_S - 1) == SILENT_S - 1
    assert await observer.silent_s(1) == SILENT_S


async def test_lease_that_changed_since_a_list_long_ago_has_an_unknown_age() -> None:
    observer = Observer()
    assert await observer.silent_s(0) is None
    observer.leases.version += 1
    # Its process may have died at any time since then.
    assert await observer.silent_s(3600) is None
    assert await observer.silent_s(SILENT_S) == SILENT_S
    observer.leases.version += 1
    assert await observer.silent_s(1) == 0.0
