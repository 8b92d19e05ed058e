"""Writes the statuses of declared resources: what the other reconcilers and the engine report.

It runs last but one, when all of them know their results. One snapshot (`Seen`) decides all
resources of a portion, so that they cannot contradict each other.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from enmasse.base.clock import Clock
from enmasse.base.errors import EnMasseError
from enmasse.control import (
    address,
    address_space,
    authentication_service,
    messaging_node,
    messaging_user,
    pipeline,
    plans,
)
from enmasse.control.endpoints import with_endpoints
from enmasse.control.events import Events, event_of_change
from enmasse.control.reconcilers.authentication_services import AuthenticationServices
from enmasse.control.reconcilers.certificates import SpaceCertificates
from enmasse.control.reconcilers.exports import Exports
from enmasse.control.reconcilers.nodes import Nodes
from enmasse.control.reconcilers.plan import PlanReconciler
from enmasse.control.reconcilers.usage import UsageReconciler
from enmasse.control.status import Check, Seen, decide
from enmasse.control.unimplemented import with_unimplemented
from enmasse.control.work_queue import Batch, WorkQueue, portions
from enmasse.plan import CATALOGUED, Outcome
from enmasse.resources import Address, AddressSpace, Declared, Key, MessagingNode
from enmasse.store import Store

CHAINS: dict[str, tuple[Check, ...]] = {
    "AddressSpace": address_space.CHAIN,
    "Address": address.CHAIN,
    "MessagingUser": messaging_user.CHAIN,
    **{model.__name__: plans.CHAIN for model in CATALOGUED},
    "AuthenticationService": authentication_service.CHAIN,
    "MessagingNode": messaging_node.CHAIN,
    "Pipeline": pipeline.CHAIN,
}
"""Readiness of each kind."""


class Sources(NamedTuple):
    """The reconcilers whose results are in statuses."""

    plan: PlanReconciler
    usage: UsageReconciler
    certificates: SpaceCertificates
    exports: Exports
    services: AuthenticationServices
    nodes: Nodes


class StatusReconciler:
    """Decides statuses and writes them, with an event for each change of readiness."""

    def __init__(
        self,
        store: Store,
        computed: Store,
        clock: Clock,
        sources: Sources,
        queue: WorkQueue,
        lock: asyncio.Lock,
    ) -> None:
        """Record events in `computed`. `lock` is held from reading statuses until writing them, by
        every writer of statuses.
        """
        self._store = store
        self._clock = clock
        self._sources = sources
        self._queue = queue
        self._lock = lock
        self._events = Events(computed, clock)

    async def reconcile(self, batch: Batch, version: int) -> None:
        """Write the statuses of the batch. Users whose password is not derived yet go back into
        the queue: before that their status would report a missing password.

        A failed portion does not keep others from being written.

        Raises: the first failure.
        """
        waiting = batch.keys & self._sources.plan.waiting
        self._queue.add(waiting)
        failed: EnMasseError | None = None
        for some in portions(sorted(batch.keys - waiting)):
            try:
                async with self._lock:
                    before, after = await self._write(some, version)
            except EnMasseError as error:
                failed = failed or error
                continue
            changes = list(zip(before, after, strict=True))
            news = [event_of_change(*one) for one in changes]
            news += [messaging_node.event_of_cordon(*one) for one in changes]
            await self._events.record(one for one in news if one is not None)
            await asyncio.sleep(0)
        if failed is not None:
            raise failed

    async def _write(
        self, keys: Iterable[Key], version: int
    ) -> tuple[list[Declared], list[Declared]]:
        """Write the statuses of some resources; return their old and new states."""
        plan = self._sources.plan
        found = [self._store.get(key) for key in keys]
        before = [one for one in found if isinstance(one, Declared)]
        outcomes = {one.key: plan.outcome(one.key) for one in before}
        seen = Seen(
            version=plan.applied_version(version),
            excluded={key: one.excluded for key, one in outcomes.items() if one.excluded},
            waiting={key: one.waiting for key, one in outcomes.items() if one.waiting},
            proof=plan.proof,
            refusal=plan.refusal,
            now=self._clock.now(),
            answers=self._sources.services.answers,
            nodes=self._sources.nodes.reports,
        )
        after = [self._decided(one, outcomes[one.key], seen) for one in before]
        await self._store.put_status(after)
        return before, after

    def _decided(self, resource: Declared, outcome: Outcome, seen: Seen) -> Declared:
        """Return a resource with its status: readiness first, then what its kind adds."""
        reason = "Alive" if isinstance(resource, MessagingNode) else "Served"
        now = resource.with_status(decide(resource, seen, CHAINS[resource.kind], reason))
        if isinstance(now, Address):
            now = address.with_losses(address.with_effective(now, outcome), seen)
        elif isinstance(now, MessagingNode):
            now = messaging_node.with_report(now, seen)
        elif isinstance(now, AddressSpace):
            now = address_space.with_login(now, outcome.login_problem, seen.now)
            now = address_space.with_names(now, outcome.name_problem, seen.now)
            if seen.proof is not None:
                now = address_space.with_unnamed(now, seen.proof.unnamed, seen.now)
            now = self._with_endpoints(self._sources.usage.shown(now), seen)
        return with_unimplemented(now, seen.now)

    def _with_endpoints(self, space: AddressSpace, seen: Seen) -> AddressSpace:
        exports = self._sources.exports
        certificates = self._sources.certificates.shown(space.metadata.uid)
        problem = exports.problem(space.key)
        return with_endpoints(space, exports.place, certificates, problem, seen.now)
