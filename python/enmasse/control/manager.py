"""The control loop: store -> Plan -> engine -> proof -> status.

It reacts to what is, never to what changed: an event of the store only says that it is time to
look. One pass gathers everything once, compiles the Plan, applies it if it differs from the one
that is served, and decides the status of each resource that is new or that the pass has touched.
Passes follow one another; changes that come meanwhile are taken together in the next one.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, EnMasseError
from enmasse.base.tasks import Backoff
from enmasse.control import address, address_space, messaging_user
from enmasse.control.events import Events, happened
from enmasse.control.status import Check, Seen, decide
from enmasse.engines import Engine, Proof
from enmasse.plan import LeftOut, Plan, PlannedAddress, compile
from enmasse.resources import Address, Declared, Key, Resource
from enmasse.store import EventType, Store

log = structlog.get_logger(__name__)

_Name = TypeVar("_Name")
_Identity = tuple[str | None, int | None]
"""uid and generation: what changes when more than a status or a label changes."""

CHAINS: dict[str, tuple[Check, ...]] = {
    "AddressSpace": address_space.CHAIN,
    "Address": address.CHAIN,
    "MessagingUser": messaging_user.CHAIN,
}
"""How each kind becomes ready."""


class Manager:
    """Keeps an engine equal to a store, and the statuses in the store equal to the engine."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        clock: Clock,
        events: Events,
        backoff: Backoff | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._events = events
        self._backoff = backoff or Backoff()
        self._due = asyncio.Event()
        self._looked_at: dict[Key, _Identity] = {}
        self._left_out: dict[Key, LeftOut] = {}
        self._waiting: dict[Key, LeftOut] = {}
        self._planned: dict[str, PlannedAddress] = {}
        self._plan: Plan | None = None
        self._proof: Proof | None = None
        self._reached = -1
        self._passed = asyncio.Event()

    async def catch_up(self) -> None:
        """Make one pass now, before `run`: what is declared is served when this returns.

        Raises: whatever the engine refuses with.
        """
        version = self._store.version
        await self._pass(version)
        self._reached = version

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(), name="watch")
            tasks.create_task(self._work(), name="reconcile")

    async def reached(self, version: int) -> None:
        """Return once a pass has seen the store at `version` or later and succeeded."""
        while self._reached < version:
            passed = self._passed
            self._due.set()
            await passed.wait()

    async def _watch(self) -> None:
        """Wake the worker for whatever is more than a status it wrote itself."""
        while True:
            since = self._store.version
            self._due.set()
            try:
                async for event in self._store.watch(since):
                    if not isinstance(event.resource, Declared):
                        continue
                    known = self._looked_at.get(event.resource.key)
                    if event.type is EventType.DELETED or known != _identity(event.resource):
                        self._due.set()
            except Conflict as error:
                if error.code != Code.VERSION_EXPIRED:
                    raise

    async def _work(self) -> None:
        failures = 0
        while True:
            await self._wait(failures)
            version = self._store.version
            try:
                await self._pass(version)
            except EnMasseError as error:
                failures += 1
                log.warning("pass failed", code=error.code, reason=error.message)
            except Exception:
                # A bug must not end the control of everything else; it is tried again like a fault.
                failures += 1
                log.exception("pass failed by a bug")
            else:
                failures = 0
                self._reached = version
                self._passed.set()
                self._passed = asyncio.Event()

    async def _wait(self, failures: int) -> None:
        """Wait until a pass is due: something is new, or a failed one may be tried again.

        Something new does not wait for the time of the next try: it may be what mends it.
        """
        delay_s = self._backoff.delay_s(failures) if failures else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._due.wait()
        self._due.clear()

    async def _pass(self, version: int) -> None:
        """Make engine and statuses equal to the store.

        Raises: whatever the engine refuses with, after the statuses have said so.
        """
        resources = {
            resource.key: resource
            for resource in self._store.list()
            if isinstance(resource, Declared)
        }
        identities = {key: _identity(resource) for key, resource in resources.items()}
        compiled = compile(resources.values(), version)
        touched = _differing(self._looked_at, identities)
        touched |= _differing(self._left_out, compiled.left_out)
        touched |= _differing(self._waiting, compiled.waiting)
        # What holds for an address may change with another one: for a subscription with its topic.
        planned = {one.uid: one for space in compiled.plan.spaces for one in space.addresses}
        changed = _differing(self._planned, planned)
        touched |= {key for key, one in resources.items() if one.metadata.uid in changed}
        self._left_out = compiled.left_out
        self._waiting = compiled.waiting
        self._planned = planned
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
            waiting=self._waiting,
            proof=self._proof,
            refusal=refusal,
            now=self._clock.now(),
        )
        # Before the statuses are written, so that the watch knows them for our own.
        self._looked_at = identities
        await self._write_statuses([resources[key] for key in touched & resources.keys()], seen)
        if refusal is not None:
            self._looked_at = {key: identities[key] for key in identities.keys() - touched}
            raise refusal

    async def _write_statuses(self, resources: Iterable[Declared], seen: Seen) -> None:
        ordered = sorted(resources, key=lambda resource: resource.key)
        decided = [self._decided(resource, seen) for resource in ordered]
        await self._store.put_status(decided)
        news = [happened(before, after) for before, after in zip(ordered, decided, strict=True)]
        await self._events.record(one for one in news if one is not None)

    def _decided(self, resource: Declared, seen: Seen) -> Declared:
        decided = resource.with_status(decide(resource, seen, CHAINS[resource.kind]))
        if isinstance(decided, Address):
            return address.with_effective(decided, self._planned.get(decided.metadata.uid or ""))
        return decided


def _identity(resource: Resource) -> _Identity:
    return resource.metadata.uid, resource.metadata.generation


def _differing(before: Mapping[_Name, object], after: Mapping[_Name, object]) -> set[_Name]:
    """Keys that are in one only, or not with the same value."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
