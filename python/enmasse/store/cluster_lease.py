"""Leases of a Kubernetes API server (coordination.k8s.io) for leadership and for writing.

A lease is stale if it has not been renewed for its duration, measured on the observer's clock, so
clocks need not agree. Every update carries the version it is based on, so one of two competing
updates fails.
"""

import json
from typing import Any

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, EnMasseError, Missing, Unavailable
from enmasse.store.cluster_api import ClusterApi
from enmasse.store.leading import LEASE_S, Leading, new_holder, replaced

log = structlog.get_logger(__name__)

LEADER, WRITER = "enmasse-leader", "enmasse-writer"

TURN_S = 10
"""Duration of a write lock without renewal."""

RENEW_TURN_S = 3.0
"""Age of a write lock at which a write renews it."""

TURN_WAIT_S = 15.0
"""Maximum wait for another writer: long enough for an abandoned lock to become stale."""

TURN_RETRY_S = 0.03
"""Polling interval of a waiting writer."""

WRITTEN = "enmasse.io/written"
"""Annotation of the write lock: the newest version written, by kind."""

Document = dict[str, Any]


class ClusterLease:
    """One lease, as last observed."""

    def __init__(self, api: ClusterApi, clock: Clock, name: str, holder: str, lasts_s: int) -> None:
        self.holder = holder
        self._api = api
        self._clock = clock
        self._name = name
        self._lasts_s = lasts_s
        self._base = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases"
        self._seen: Document | None = None
        self._seen_s = 0.0

    @property
    def document(self) -> Document:
        """The lease as last observed; an empty document if there is none."""
        return self._seen or {}

    @property
    def spec(self) -> Document:
        """Holder and number of transitions."""
        return dict(self.document.get("spec") or {})

    @property
    def written(self) -> dict[str, int]:
        """The versions written, according to the lease."""
        found = (self.document.get("metadata") or {}).get("annotations") or {}
        try:
            versions = json.loads(found.get(WRITTEN, "{}"))
            return {str(kind): int(version) for kind, version in versions.items()}
        except (ValueError, TypeError, AttributeError):
            return {}

    async def refresh(self) -> None:
        """Read the lease. Raises: Unavailable."""
        try:
            self._observe(await self._api.get(f"{self._base}/{self._name}"))
        except Missing:
            self._seen = None

    async def hold(self, holder: str, written: dict[str, int] | None = None) -> bool:
        """Assign the lease as last observed to a holder; False if it changed since.

        Raises: Unavailable.
        """
        before = self.spec
        spec: Document = {
            "holderIdentity": holder,
            "leaseDurationSeconds": self._lasts_s,
            "leaseTransitions": before.get("leaseTransitions", 0)
            + (bool(holder) and before.get("holderIdentity") != holder),
            # A unique text: every renewal then has a new version, which observers compare.
            "renewTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        metadata: Document = {"name": self._name, "namespace": self._api.namespace}
        versions = self.written if written is None else written
        metadata["annotations"] = {WRITTEN: json.dumps(versions)} if versions else {}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
        try:
            if self._seen is None:
                made = await self._api.write("POST", self._base, body | {"metadata": metadata})
            else:
                metadata["resourceVersion"] = self._seen["metadata"]["resourceVersion"]
                body |= {"metadata": metadata}
                made = await self._api.write("PUT", f"{self._base}/{self._name}", body)
        except (Conflict, Missing):
            await self.refresh()
            return False
        self._observe(made)
        return True

    def is_free(self) -> bool:
        """Whether the lease is free or has not been renewed in time."""
        return not self.spec.get("holderIdentity") or self.age_s() > self._lasts_s

    def age_s(self) -> float:
        """Return how long the lease has been unchanged."""
        return self._clock.monotonic() - self._seen_s

    def _observe(self, found: Document) -> None:
        # A later request may have been answered earlier.
        if self._seen is None or _version(found) > _version(self._seen):
            self._seen_s = self._clock.monotonic()
            self._seen = found


def _version(document: Document) -> int:
    return int(document["metadata"]["resourceVersion"])


class ClusterLeading(Leading):
    """Leadership by a lease of the cluster."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        super().__init__(clock)
        self._lease = ClusterLease(api, clock, LEADER, self._holder, LEASE_S)

    async def _take(self) -> bool:
        await self._lease.refresh()
        mine = self._is_mine()
        if not mine and (self._term is not None or not self._lease.is_free()):
            return False
        if not await self._lease.hold(self._lease.holder) and not self._is_mine():
            return False
        self._term = int(self._lease.spec["leaseTransitions"])
        return True

    async def check(self) -> None:
        """Check that this process leads.

        Raises: Unavailable (STANDING_BY) if it does not, or if that is unknown.
        """
        await self._lease.refresh()
        if not self._is_mine():
            raise replaced()

    async def _give_back(self) -> None:
        await self._lease.refresh()
        if self._is_mine():
            await self._lease.hold("")

    def _is_mine(self) -> bool:
        spec = self._lease.spec
        holder, term = spec.get("holderIdentity"), spec.get("leaseTransitions")
        return holder == self._lease.holder and self._term in (None, term)


class WritersTurn:
    """The write lock among all processes of the cluster."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        self._name = api.name
        self._clock = clock
        self._lease = ClusterLease(api, clock, WRITER, new_holder(), TURN_S)
        self._own: dict[str, int] = {}
        """The versions that we recorded last."""

        self._wrote: dict[str, int] = {}

    async def begin(self) -> dict[str, int]:
        """Take the lock; return what others have written, by kind.

        Raises: Unavailable if it is not free in time.
        """
        waiting_since_s = self._clock.monotonic()
        # Usually the lease is as we left it, so skip the read, which would be one more request.
        while not (self._is_free() and await self._lease.hold(self._lease.holder)):
            if self._clock.monotonic() - waiting_since_s > TURN_WAIT_S:
                raise Unavailable(
                    Code.STORE_UNUSABLE,
                    f"{self._name}: another writer has held the write lock for"
                    f" {TURN_WAIT_S:.0f} s; try again",
                    retry_after_s=1.0,
                )
            await self._clock.sleep(TURN_RETRY_S)
            await self._lease.refresh()
        self._wrote = {}
        return await self.read_others_writes(refresh=False)

    async def read_others_writes(self, *, refresh: bool) -> dict[str, int]:
        """Return what others have written, by kind; empty if we were the last writer.

        Raises: Unavailable.
        """
        if refresh:
            await self._lease.refresh()
        written = self._lease.written
        return {} if written == self._own else written

    async def keep(self) -> None:
        """Renew the lock if it is due.

        Raises: Unavailable if another writer has it.
        """
        if self._lease.age_s() > RENEW_TURN_S and not await self._lease.hold(self._lease.holder):
            raise Unavailable(
                Code.STORE_UNUSABLE,
                f"{self._name}: lost the write lock to another writer; try again",
                retry_after_s=1.0,
            )

    def note(self, kind: str, version: int) -> None:
        """Record what was written under this lock."""
        self._wrote[kind] = max(version, self._wrote.get(kind, 0))

    async def end(self) -> None:
        """Release the lock and publish what was written."""
        written = {**self._lease.written, **self._wrote}
        try:
            if await self._lease.hold("", written):
                self._own = written
        except EnMasseError as error:
            log.warning("the write lock was not released", reason=error.message, turn_s=TURN_S)

    def _is_free(self) -> bool:
        return self._lease.is_free() or self._lease.spec["holderIdentity"] == self._lease.holder
