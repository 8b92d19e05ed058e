"""The nodes of a Kubernetes cluster: one Lease a node (coordination.k8s.io).

A node is silent if its Lease has not changed for SILENT_S on the observer's monotonic clock, so
clocks need not agree. A Lease is a resource of its own kind: heartbeats reach no watch of declared
resources.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, Missing
from enmasse.store.cluster_api import MERGE_PATCH, ClusterApi
from enmasse.store.nodes import (
    SILENT_S,
    Heartbeat,
    Identity,
    Registered,
    check_forgettable,
    heartbeat_of,
    replaced,
)

BEAT_S = 10.0
"""Interval of heartbeats."""

PREFIX = "enmasse-node-"
"""A node's Lease is PREFIX and its name."""

LABEL = "enmasse.io/node"
IDENTITY, HEARTBEAT = "enmasse.io/node-identity", "enmasse.io/heartbeat"
"""Annotations of a Lease, JSON."""

ATTEMPTS = 3
"""Attempts to write a Lease that changes concurrently."""

Document = dict[str, Any]


class _Seen(NamedTuple):
    """When a Lease was first seen in its present version."""

    version: str
    at_s: float
    is_fresh: bool
    """Whether it changed while it was observed; else its age is unknown."""


class ClusterNodes:
    """A `NodeRegistry` in a cluster."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._base = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases"
        self._seen: dict[str, _Seen] = {}
        self._listed_s = -math.inf
        """Time of the last list."""

        self._own: Document | None = None
        """Our own Lease as written last."""

    @property
    def beat_interval_s(self) -> float:
        """Interval of heartbeats."""
        return BEAT_S

    async def list(self) -> Sequence[Registered]:
        """Return all nodes, by name."""
        leases, _ = await self._api.list(self._base, labelSelector=LABEL)
        now_s = self._clock.monotonic()
        # A change since a list long ago may be as old as that list.
        is_observing, self._listed_s = now_s - self._listed_s < SILENT_S, now_s
        found = [
            one for lease in leases if (one := self._registered(lease, is_observing)) is not None
        ]
        names = {one.identity.name for one in found}
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        return sorted(found, key=lambda one: one.identity.name)

    async def claim(self, former: Registered | None, identity: Identity, place: str) -> bool:
        """Make `identity` the node of its name, if that still is `former`."""
        lease = self._lease(identity, place, Heartbeat())
        try:
            if former is None:
                self._own = await self._api.write("POST", self._base, lease)
            else:
                self._own = await self._change(lease, former.beat)
        except (Conflict, Missing):
            return False
        return True

    async def beat(self, identity: Identity, heartbeat: Heartbeat) -> None:
        """Record a heartbeat."""
        await self._renew(identity, heartbeat, identity.uid)

    async def stop(self, identity: Identity) -> None:
        """Record that a node has stopped in order."""
        try:
            await self._renew(identity, None, "")
        except Conflict as error:
            if error.code != Code.NODE_REPLACED:
                raise

    async def forget(self, name: str, *, dry_run: bool = False) -> None:
        """Delete a silent node."""
        nodes = await self.list()
        check_forgettable(name, nodes)
        for one in nodes:
            if one.identity.name == name and not dry_run:
                with suppress(Missing):
                    # A heartbeat since then is a conflict.
                    await self._api.delete(self._path(name), None, version=one.beat)

    async def _renew(self, identity: Identity, heartbeat: Heartbeat | None, holder: str) -> None:
        """Write our Lease; None keeps its heartbeat.

        Raises: Conflict (NODE_REPLACED) if it is not ours any more.
        """
        for _ in range(ATTEMPTS):
            if self._own is None:
                try:
                    self._own = await self._api.get(self._path(identity.name))
                except Missing:
                    raise replaced(identity) from None
            if _identity(self._own) != identity:
                raise replaced(identity)
            annotations = self._own["metadata"]["annotations"]
            place = str(json.loads(annotations[IDENTITY]).get("place", ""))
            said = heartbeat or heartbeat_of(annotations.get(HEARTBEAT, "{}"))
            lease = self._lease(identity, place, said)
            lease["spec"]["holderIdentity"] = holder
            try:
                self._own = await self._change(lease, self._own["metadata"]["resourceVersion"])
                return
            except (Conflict, Missing):
                self._own = None
        raise Conflict(
            Code.VERSION_CONFLICT, f"the Lease {PREFIX}{identity.name} changes concurrently"
        )

    async def _change(self, lease: Document, version: str) -> Document:
        """Change a Lease that has a version. A PUT would create one that was deleted.

        Raises: Conflict if it has another version; Missing; Unavailable.
        """
        lease["metadata"]["resourceVersion"] = version
        path = f"{self._base}/{lease['metadata']['name']}"
        return await self._api.write("PATCH", path, lease, media=MERGE_PATCH)

    def _lease(self, identity: Identity, place: str, heartbeat: Heartbeat) -> Document:
        known = identity._asdict() | {"place": place}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": f"{PREFIX}{identity.name}",
                "namespace": self._api.namespace,
                "labels": {LABEL: identity.name},
                "annotations": {
                    IDENTITY: json.dumps(known),
                    HEARTBEAT: json.dumps(heartbeat.document()),
                },
            },
            "spec": {
                "holderIdentity": identity.uid,
                "leaseDurationSeconds": int(SILENT_S),
                "leaseTransitions": identity.start,
                # For people. Each renewal changes it, and so the version that observers compare.
                "renewTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }

    def _registered(self, lease: Document, is_observing: bool) -> Registered | None:
        """Return the node of a Lease; None if it is not one of ours. `is_observing`: the last list
        is less than SILENT_S old.
        """
        identity = _identity(lease)
        if identity is None:
            return None
        annotations = lease["metadata"]["annotations"]
        version = str(lease["metadata"]["resourceVersion"])
        silent_s = self._silent_s(identity.name, version, is_observing)
        if not (lease.get("spec") or {}).get("holderIdentity"):
            silent_s = math.inf
        return Registered(
            identity,
            str(json.loads(annotations[IDENTITY]).get("place", "")),
            version,
            silent_s,
            heartbeat_of(annotations.get(HEARTBEAT, "{}")),
        )

    def _silent_s(self, name: str, version: str, is_observing: bool) -> float | None:
        now_s = self._clock.monotonic()
        seen = self._seen.get(name)
        if seen is None or seen.version != version:
            is_fresh = seen is not None and is_observing
            seen = self._seen[name] = _Seen(version, now_s, is_fresh)
        silent_s = now_s - seen.at_s
        return silent_s if seen.is_fresh or silent_s >= SILENT_S else None

    def _path(self, name: str) -> str:
        return f"{self._base}/{PREFIX}{name}"


def _identity(lease: Mapping[str, Any]) -> Identity | None:
    annotations = lease["metadata"].get("annotations") or {}
    try:
        found = json.loads(annotations[IDENTITY])
        return Identity(
            str(found["name"]), str(found["uid"]), int(found["start"]), str(found["mark"])
        )
    except (KeyError, ValueError, TypeError):
        return None
