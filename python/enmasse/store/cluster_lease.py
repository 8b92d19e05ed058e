"""Leases of a Kubernetes API server (coordination.k8s.io): who leads, and who may write.

A lease is stale when it has not been renewed for as long as it lasts, by the clock of whoever looks
at it: no two clocks need agree. Every change of it is made on the version that was seen, so that of
two who want it one gets it.
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
"""How long a writer that does not renew its turn keeps it."""

RENEW_TURN_S = 3.0
"""How old a turn may be before a write renews it."""

TURN_WAIT_S = 15.0
"""Longest wait for another writer: time enough for a turn that nobody ends to become stale."""

TURN_RETRY_S = 0.03
"""How often a writer that waits looks."""

WRITTEN = "enmasse.io/written"
"""Annotation of the writers' lease: the newest version that writers have written, by kind."""

Document = dict[str, Any]


class ClusterLease:
    """One lease, as last seen."""

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
        """The lease as last seen; an empty document if there is none."""
        return self._seen or {}

    @property
    def spec(self) -> Document:
        """Its holder, and how often that changed."""
        return dict(self.document.get("spec") or {})

    @property
    def written(self) -> dict[str, int]:
        """What the lease says that writers have written."""
        found = (self.document.get("metadata") or {}).get("annotations") or {}
        try:
            said = json.loads(found.get(WRITTEN, "{}"))
            return {str(kind): int(version) for kind, version in said.items()}
        except (ValueError, TypeError, AttributeError):
            return {}

    async def look(self) -> None:
        """Read the lease. Raises: Unavailable."""
        try:
            self._see(await self._api.get(f"{self._base}/{self._name}"))
        except Missing:
            self._seen = None

    async def hold(self, holder: str, written: dict[str, int] | None = None) -> bool:
        """Give the lease as last seen to a holder; False if it is another one by now.

        Raises: Unavailable.
        """
        before = self.spec
        spec: Document = {
            "holderIdentity": holder,
            "leaseDurationSeconds": self._lasts_s,
            "leaseTransitions": before.get("leaseTransitions", 0)
            + (bool(holder) and before.get("holderIdentity") != holder),
            # Always another text: each renewal is a new version, which is what others look at.
            "renewTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        metadata: Document = {"name": self._name, "namespace": self._api.namespace}
        said = self.written if written is None else written
        metadata["annotations"] = {WRITTEN: json.dumps(said)} if said else {}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
        try:
            if self._seen is None:
                made = await self._api.write("POST", self._base, body | {"metadata": metadata})
            else:
                metadata["resourceVersion"] = self._seen["metadata"]["resourceVersion"]
                body |= {"metadata": metadata}
                made = await self._api.write("PUT", f"{self._base}/{self._name}", body)
        except (Conflict, Missing):
            await self.look()
            return False
        self._see(made)
        return True

    def is_free(self) -> bool:
        """Whether nobody holds the lease, or who does has not renewed it in time."""
        return not self.spec.get("holderIdentity") or self.age_s() > self._lasts_s

    def age_s(self) -> float:
        """Return how long the lease has been as it was last seen."""
        return self._clock.monotonic() - self._seen_s

    def _see(self, found: Document) -> None:
        # An answer may come after that to a later request.
        if self._seen is None or _version(found) > _version(self._seen):
            self._seen_s = self._clock.monotonic()
            self._seen = found


def _version(document: Document) -> int:
    return int(document["metadata"]["resourceVersion"])


class ClusterLeading(Leading):
    """Leading by a lease of the cluster."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        super().__init__(clock)
        self._lease = ClusterLease(api, clock, LEADER, self._holder, LEASE_S)

    async def _take(self) -> bool:
        await self._lease.look()
        mine = self._is_mine()
        if not mine and (self._term is not None or not self._lease.is_free()):
            return False
        if not await self._lease.hold(self._lease.holder) and not self._is_mine():
            return False
        self._term = int(self._lease.spec["leaseTransitions"])
        return True

    async def check(self) -> None:
        """See that this process leads.

        Raises: Unavailable (STANDING_BY) if it does not, or if it cannot be known.
        """
        await self._lease.look()
        if not self._is_mine():
            raise replaced()

    async def _give_back(self) -> None:
        await self._lease.look()
        if self._is_mine():
            await self._lease.hold("")

    def _is_mine(self) -> bool:
        spec = self._lease.spec
        holder, term = spec.get("holderIdentity"), spec.get("leaseTransitions")
        return holder == self._lease.holder and self._term in (None, term)


class WritersTurn:
    """The turn of one writer among all processes of the cluster."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        self._name = api.name
        self._clock = clock
        self._lease = ClusterLease(api, clock, WRITER, new_holder(), TURN_S)
        self._own: dict[str, int] = {}
        """What we were the last to say that was written."""

        self._wrote: dict[str, int] = {}

    async def begin(self) -> dict[str, int]:
        """Take the turn; return what others have written, by kind.

        Raises: Unavailable if it does not come in time.
        """
        waiting_since_s = self._clock.monotonic()
        # As it was left, most often: to look first would be one more request.
        while not (self._is_free() and await self._lease.hold(self._lease.holder)):
            if self._clock.monotonic() - waiting_since_s > TURN_WAIT_S:
                raise Unavailable(
                    Code.STORE_UNUSABLE,
                    f"{self._name}: another writer has kept it for {TURN_WAIT_S:.0f} s; try again",
                    retry_after_s=1.0,
                )
            await self._clock.sleep(TURN_RETRY_S)
            await self._lease.look()
        self._wrote = {}
        return await self.news(look=False)

    async def news(self, *, look: bool) -> dict[str, int]:
        """Return what others have written, by kind; nothing if we were the last.

        Raises: Unavailable.
        """
        if look:
            await self._lease.look()
        written = self._lease.written
        return {} if written == self._own else written

    async def keep(self) -> None:
        """Renew the turn if it is not young any more.

        Raises: Unavailable if it has become another one's.
        """
        if self._lease.age_s() > RENEW_TURN_S and not await self._lease.hold(self._lease.holder):
            raise Unavailable(
                Code.STORE_UNUSABLE,
                f"{self._name}: this writer was too slow, and another one has its turn; try again",
                retry_after_s=1.0,
            )

    def note(self, kind: str, version: int) -> None:
        """Remember what was written in this turn."""
        self._wrote[kind] = max(version, self._wrote.get(kind, 0))

    async def end(self) -> None:
        """Give the turn to the next one, who is told what was written."""
        written = {**self._lease.written, **self._wrote}
        try:
            if await self._lease.hold("", written):
                self._own = written
        except EnMasseError as error:
            log.warning("the turn is not given back", reason=error.message, turn_s=TURN_S)

    def _is_free(self) -> bool:
        return self._lease.is_free() or self._lease.spec["holderIdentity"] == self._lease.holder
