"""The control loop: store -> Plan -> engine -> proof -> status.

It reacts to what is, never to what changed: a change only says that it is time to look. One pass
gathers everything once, compiles the Plan, applies it if it differs from the one that is served,
and decides the status of each resource that the pass may have touched. Passes follow one another;
changes that come meanwhile are taken together in the next one.
"""

import asyncio
from collections.abc import Iterable

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, EnMasseError
from enmasse.base.tasks import Backoff
from enmasse.control import address, address_space, messaging_user
from enmasse.control.status import Check, Seen, decide
from enmasse.control.workqueue import WorkQueue
from enmasse.engines import Engine, Proof
from enmasse.plan import LeftOut, Plan, compile
from enmasse.resources import Key, Resource
from enmasse.store import EventType, Store

log = structlog.get_logger(__name__)

CHAINS: dict[str, tuple[Check, ...]] = {
    "AddressSpace": address_space.CHAIN,
    "Address": address.CHAIN,
    "MessagingUser": messaging_user.CHAIN,
}
"""How each kind becomes ready."""


class Manager:
    """Keeps an engine equal to a store, and the statuses in the store equal to the engine."""

    def __init__(
        self, store: Store, engine: Engine, clock: Clock, backoff: Backoff | None = None
    ) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._queue = WorkQueue(backoff or Backoff())
        self._generations: dict[Key, tuple[str | None, int | None]] = {}
        self._plan: Plan | None = None
        self._left_out: dict[Key, LeftOut] = {}
        self._proof: Proof | None = None
        self._reached = -1
        self._passed = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(), name="watch")
            tasks.create_task(self._work(), name="reconcile")

    async def reached(self, version: int) -> None:
        """Return once a pass has seen the store at `version` or later and succeeded."""
        while self._reached < version:
            await self._passed.wait()

    async def _watch(self) -> None:
        while True:
            since = self._store.version
            self._queue.add(resource.key for resource in self._store.list())
            try:
                async for event in self._store.watch(since):
                    if self._concerns_us(event.type, event.resource):
                        self._queue.add([event.resource.key])
            except Conflict as error:
                if error.code != Code.VERSION_EXPIRED:
                    raise
                log.info("watch fell behind, listing again", since=since)

    def _concerns_us(self, type_: EventType, resource: Resource) -> bool:
        """Whether an event is more than a status that this loop wrote itself."""
        generation = (resource.metadata.uid, resource.metadata.generation)
        if type_ is EventType.DELETED:
            self._generations.pop(resource.key, None)
            return True
        known = self._generations.get(resource.key)
        self._generations[resource.key] = generation
        return known != generation

    async def _work(self) -> None:
        while True:
            keys = await self._queue.take()
            version = self._store.version
            try:
                await self._pass(keys, version)
            except EnMasseError as error:
                log.warning("pass failed", code=error.code, reason=error.message, keys=len(keys))
                self._queue.failed(keys)
            except Exception:
                # A bug must not end the control of everything else; it is tried again like a fault.
                log.exception("pass failed by a bug", keys=len(keys))
                self._queue.failed(keys)
            else:
                self._queue.succeeded()
                self._reached = version
                self._passed.set()
                self._passed = asyncio.Event()

    async def _pass(self, keys: set[Key], version: int) -> None:
        """Make engine and statuses equal to the store.

        Raises: whatever the engine refuses with, after the statuses have said so.
        """
        resources = {resource.key: resource for resource in self._store.list()}
        compiled = compile(resources.values(), version)
        touched = keys | _differing(self._left_out, compiled.left_out)
        self._left_out = compiled.left_out
        refusal: EnMasseError | None = None
        if self._plan is None or compiled.plan.spaces != self._plan.spaces:
            before = self._proof.active if self._proof else frozenset()
            try:
                self._proof = await self._engine.apply(compiled.plan)
                self._plan = compiled.plan
                switched = before ^ self._proof.active
                touched |= {key for key, one in resources.items() if one.metadata.uid in switched}
            except EnMasseError as error:
                refusal = error
        seen = Seen(
            version=self._plan.version if self._plan else version,
            left_out=self._left_out,
            proof=self._proof,
            refusal=refusal,
            now=self._clock.now(),
        )
        await self._write_statuses([resources[key] for key in touched & resources.keys()], seen)
        if refusal is not None:
            raise refusal

    async def _write_statuses(self, resources: Iterable[Resource], seen: Seen) -> None:
        decided = [
            resource.with_status(decide(resource, seen, CHAINS[resource.kind]))
            for resource in sorted(resources, key=lambda resource: resource.key)
        ]
        await self._store.put_status(decided)


def _differing(before: dict[Key, LeftOut], after: dict[Key, LeftOut]) -> set[Key]:
    """Keys that are in one only, or not with the same value."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
