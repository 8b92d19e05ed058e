"""The control loop: store -> Plan -> engine -> confirmation -> status.

It is level-triggered: a change only selects the resources to process, and after too many changes
all are processed. Passes do not overlap; concurrent changes are handled together by the next one.
"""

import asyncio
from collections.abc import Iterable

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, EnMasseError
from enmasse.base.tasks import Backoff
from enmasse.control.declared import StoreState
from enmasse.control.inventory import ATTACHED, Inventory
from enmasse.control.reconcilers import (
    AuthenticationServices,
    Exports,
    Nodes,
    PlanReconciler,
    SpaceCertificates,
    StatusReconciler,
    UsageReconciler,
)
from enmasse.control.reconcilers.status import Sources
from enmasse.control.work_queue import Batch, WorkQueue, portions
from enmasse.engines import Engine
from enmasse.plan import Compiler
from enmasse.plan.model import LINK_CAPACITY
from enmasse.resources import Key
from enmasse.store import Store

log = structlog.get_logger(__name__)

REST_TIMES = 3
"""Minimum pause between passes, as a multiple of the duration of the last one: bursts are combined,
and passes take a quarter of the time at most.
"""

REST_MAX_S = 1.0
"""Maximum pause between passes. With tens of thousands of addresses a pass takes a quarter of it.
"""

FEW = 4
"""Maximum resources of a pass without a pause after it, so that sequential creation is fast."""

RESYNC_S = 300.0
"""Interval of full passes: they repair missed changes of statuses and of the engine."""


class Manager:
    """Runs the reconcilers on one work queue, in the process that leads.

    Construct it; pass in the state of the process (`usage.recover`, `services.note`,
    `certificates.set_node`); `catch_up` once, after which declared resources are served;
    `exports.set_listeners` once the listeners are open; then `run` until cancelled.

    A pass calls the reconcilers in this order, because each step reads the results of the former:

    1. `usage.declare`, `plan.declare`: take changed resources. Usage first, so that the record of a
       deleted space ends with its last traffic.
    2. `plan.compile`: what should be served. The compiled plans of spaces are input of
       `usage.decide_exhausted`, whose decision `plan.exhaust` adds to the Plan.
    3. `certificates`: before the Plan, so that the first client of a space gets its certificate.
    4. `plan.serve`: the engine applies the Plan and confirms it. A refusal is reported by the
       statuses before the pass fails.
    5. `status`: reports all of that.
    6. `exports`: they contain the data of the statuses.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        clock: Clock,
        computed: Store,
        backoff: Backoff | None = None,
        *,
        declared: StoreState | None = None,
        exposed: bool = False,
        hosts: Iterable[str] = (),
        link_credit: int = LINK_CAPACITY,
    ) -> None:
        """Serve `store` with `engine`. Events and schemas go into `computed`.

        `declared`: the declared state of `store`, if this process has it already. `exposed`: other
        machines can reach a listener unintentionally. `hosts`: host names of the platform, which
        select no space. `link_credit`: default credit of a sender.
        """
        self._store = store
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._queue = queue = WorkQueue()
        self._inventory = inventory = Inventory(store)
        lock = asyncio.Lock()
        declared = declared or StoreState(store)
        compiler = Compiler(
            declared.followed, exposed=exposed, hosts=hosts, link_credit=link_credit
        )
        self.plan = PlanReconciler(store, computed, engine, declared, compiler, inventory, queue)
        self.usage = UsageReconciler(store, engine, clock, self.plan.allowance_of, queue, lock)
        self.certificates = SpaceCertificates(store, engine, clock, inventory, queue)
        self.exports = Exports(store, inventory, queue)
        self.services = AuthenticationServices(inventory, queue)
        self.nodes = Nodes(clock, queue)
        sources = Sources(
            *(self.plan, self.usage, self.certificates, self.exports, self.services), self.nodes
        )
        self.status = StatusReconciler(store, computed, clock, sources, queue, lock)
        self._resync_at = clock.monotonic() + RESYNC_S
        self._changed_count = 0
        """Number of resources that were new to the last pass."""

        self._reached = -1
        self._passed = asyncio.Event()

    async def catch_up(self) -> None:
        """Run one pass before `run`: declared resources are served when this returns.

        Raises: the refusal of the engine.
        """
        version = self._store.version
        await self._pass(version)
        self._reached = version

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(), name="watch")
            tasks.create_task(self._work(), name="reconcile")

    async def reached(self, version: int) -> None:
        """Return once a pass with the store at `version` or later has succeeded."""
        while self._reached < version:
            passed = self._passed
            self._queue.wake()
            await passed.wait()

    async def _watch(self) -> None:
        """Request a pass for every change, except for statuses that the passes wrote."""
        while True:
            since = self._store.version
            self._queue.wake()
            try:
                async for event in self._store.watch(since):
                    if self._inventory.concerns(event):
                        self._queue.wake()
            except Conflict as error:
                if error.code != Code.VERSION_EXPIRED:
                    raise

    async def _work(self) -> None:
        """Run requested passes; retry failed ones.

        After a pass over many resources the loop pauses, so that a burst of changes is a few passes
        and other tasks get most of the time.
        """
        failures = 0
        rested = self._clock.monotonic()
        while True:
            await self._wait(failures)
            if (rest_s := rested - self._clock.monotonic()) > 0:
                await self._clock.sleep(rest_s)
                self._queue.combine()
            version = self._store.version
            began = self._clock.monotonic()
            try:
                await self._pass(version)
            except EnMasseError as error:
                failures += 1
                log.warning("pass failed", code=error.code, reason=error.message)
            except Exception:
                # An internal error must not stop the loop; it is retried like a fault.
                failures += 1
                log.exception("pass failed by a bug")
            else:
                # Resources that the engine could not serve are retried, as after a refusal.
                failures = 0 if self.plan.is_served else failures + 1
                self._reached = version
                self._passed.set()
                self._passed = asyncio.Event()
            ended = self._clock.monotonic()
            if self._changed_count > FEW:
                rested = ended + min(REST_TIMES * (ended - began), REST_MAX_S)

    async def _wait(self, failures: int) -> None:
        """Wait until a pass is due: after a change, at a retry, or for a full pass.

        A change does not wait for the retry: it may be the remedy.
        """
        delay_s = max(self._resync_at - self._clock.monotonic(), 0.0)
        if failures:
            delay_s = self._backoff.delay_s(failures)
        await self._queue.wait(delay_s)

    async def _pass(self, version: int) -> None:
        """Synchronise engine and statuses with the store.

        Raises: the refusal of the engine, after the statuses report it. The next pass repeats the
            work of a failed one.
        """
        batch = Batch(is_full=self._clock.monotonic() >= self._resync_at)
        try:
            await self._collect(batch)
            await self._reconcile(batch, version)
        except BaseException:
            self._queue.put_back(batch)
            raise
        if batch.is_full:
            self._resync_at = self._clock.monotonic() + RESYNC_S

    async def _collect(self, batch: Batch) -> None:
        """Put waiting work and the changes of the store into the batch.

        The compiler reads the present store, not that at the begin of the pass. So the remaining
        changes are applied after the last `await`: usage, certificates and exports receive every
        resource that is compiled.
        """
        if self._inventory.is_new:
            self.usage.read_ended()
        changed: set[Key] = set()
        for some in portions(await self._pending()):
            changed |= self._take(some, batch)
            await asyncio.sleep(0)
        batch.add(self._queue.take())
        changed |= await self.plan.derive_passwords(batch)
        changed |= self._take(await self._pending(), batch)
        batch.keys |= changed | (self._inventory.keys() if batch.is_full else set())
        self._changed_count = len(changed)

    async def _pending(self) -> set[Key]:
        """Return the keys that may have changed, once the traffic of ended spaces is recorded.

        The engine discards its counters with a space, and the compiler its plan.
        """
        pending = self._inventory.pending()
        sampled: set[Key] = set()
        while ended := self._inventory.ended_spaces(pending.keys) - sampled:
            await self.usage.sample()
            sampled |= ended
            pending = self._inventory.pending()
        self._inventory.advance(pending.version)
        return pending.keys

    def _take(self, keys: Iterable[Key], batch: Batch) -> set[Key]:
        """Pass changed resources to the reconcilers and the batch; return their keys."""
        taken = set()
        some = list(keys)
        batch.attached |= {key for key in some if key.kind in ATTACHED}
        for change in self._inventory.take(some):
            self.usage.declare(change)
            self.plan.declare(change)
            taken.add(change.key)
            if change.ended_uid is not None and change.key.kind == "AddressSpace":
                batch.ended_spaces.add(change.ended_uid)
        batch.keys |= taken
        return taken

    async def _reconcile(self, batch: Batch, version: int) -> None:
        """Call the reconcilers, in the order of the class's docstring."""
        batch.keys |= self.plan.compile()
        batch.keys |= self.usage.decide_exhausted()
        self.plan.exhaust(self.usage.exhausted)
        await self.plan.publish()
        uncertified = await self.certificates.reconcile(batch)
        await self.plan.serve(batch, version)
        await self.status.reconcile(batch, version)
        await self.exports.reconcile(batch)
        await self.usage.write_ended()
        if (failed := self.plan.refusal or uncertified) is not None:
            raise failed
