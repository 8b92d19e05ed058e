"""The control loop: store -> Plan -> engine -> confirmation -> status.

It is level-triggered: a change only selects the resources to process, and after too many changes
all are processed. A pass applies changes, updates the Plan, sends it to the engine if it differs
from the served one, and decides the status of every affected resource. Passes do not overlap;
concurrent changes are handled together by the next one.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, EnMasseError
from enmasse.base.tasks import Backoff
from enmasse.control import (
    address,
    address_space,
    authentication_service,
    messaging_user,
    plans,
)
from enmasse.control.address_space_schema import schemas
from enmasse.control.certificate_choice import NodeIdentity
from enmasse.control.certificates import SpaceCertificates
from enmasse.control.deleted_usage import DeletedUsage
from enmasse.control.endpoints import Place, with_endpoints
from enmasse.control.events import Events, happened
from enmasse.control.exports import KINDS as EXPORTED
from enmasse.control.exports import Exports
from enmasse.control.secret_passwords import SecretPasswords
from enmasse.control.status import Answer, Check, Seen, decide
from enmasse.control.unimplemented import with_unimplemented
from enmasse.control.usage import Book
from enmasse.engines import Engine, Proof, SpaceFigures
from enmasse.plan import CATALOGUED, PLATFORM, Catalogue, Compiler, Plan
from enmasse.plan.model import LINK_CAPACITY
from enmasse.resources import Address, AddressSpace, Declared, Key, MessagingUser, Resource
from enmasse.resources.address_space import Usage
from enmasse.resources.address_space_plan import Allowance
from enmasse.store import EventType, Store

log = structlog.get_logger(__name__)

_Item = TypeVar("_Item")
_Identity = tuple[str | None, int | None]
"""uid and generation: they change when more than a status or a label changes."""

REST_TIMES = 3
"""Minimum pause between passes, as a multiple of the duration of the last one: bursts are combined,
and passes take a quarter of the time at most.
"""

REST_MAX_S = 1.0
"""Maximum pause between passes. With tens of thousands of addresses a pass takes a quarter of it.
"""

AT_A_TIME = 256
"""Resources processed before the loop yields to other tasks."""

FEW = 4
"""Maximum resources of a pass without a pause after it, so that sequential creation is fast."""

RESYNC_S = 300.0
"""Interval of full passes: they repair missed changes of statuses and of the engine."""

CHAINS: dict[str, tuple[Check, ...]] = {
    "AddressSpace": address_space.CHAIN,
    "Address": address.CHAIN,
    "MessagingUser": messaging_user.CHAIN,
    **{model.__name__: plans.CHAIN for model in CATALOGUED},
    "AuthenticationService": authentication_service.CHAIN,
}
"""Readiness of each kind."""


class Manager:
    """Keeps an engine equal to a store, and the statuses in the store equal to the engine."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        clock: Clock,
        computed: Store,
        backoff: Backoff | None = None,
        *,
        exposed: bool = False,
        hosts: Iterable[str] = (),
        link_credit: int = LINK_CAPACITY,
    ) -> None:
        """Serve `store` with `engine`. Events and schemas go into `computed`.

        `exposed`: other machines can reach a listener unintentionally. `hosts`: host names of the
        platform, which select no space. `link_credit`: default credit of a sender.
        """
        self._store = store
        self._engine = engine
        self._clock = clock
        self._computed = computed
        self._events = Events(computed, clock)
        self._backoff = backoff or Backoff()
        self._exports = Exports(store)
        self._passwords = SecretPasswords(store)
        self._certificates = SpaceCertificates(store, engine, clock)
        self._place: Place | None = None
        self._beside: set[Key] = set()
        """Secrets and similar resources changed since the last pass."""

        self._spaces_gone: set[str] = set()
        self._due = asyncio.Event()
        self._compiler = Compiler(exposed=exposed, hosts=hosts, link_credit=link_credit)
        self._taken_in: int | None = None
        """Version of the store that the compiler has."""

        self._looked_at: dict[Key, _Identity] = {}
        self._by_uid: dict[str, Key] = {}
        self._count = 0
        """Number of resources that were new to the last pass."""

        self._owed: set[Key] = set()
        """Resources to decide again after a refusal of the engine."""

        self._writing = asyncio.Lock()
        """Held from reading statuses until writing them."""

        self._book = Book()
        self._departed = DeletedUsage(store)
        self._exhausted: dict[str, str] = {}
        """Reasons of spaces whose allowance is used up, by uid."""

        self._answers: Mapping[Key, Answer] | None = None
        self._published: Catalogue | None = None
        self._plan: Plan | None = None
        self._proof: Proof | None = None
        self._doubted = False
        """The engine reported an event: its confirmations may be outdated."""

        self._resync_at = clock.monotonic() + RESYNC_S
        self._reached = -1
        self._passed = asyncio.Event()

    def listens(self, place: Place) -> None:
        """Set the listeners of the platform; the next pass updates the statuses of all spaces."""
        self._place = place
        self._look_again()

    def shows(self, node: NodeIdentity) -> None:
        """Set the node's certificate; from the next pass on spaces get certificates that its CA
        vouches for.
        """
        if node != self._certificates.node:
            self._certificates.node = node
            self._look_again()

    def _look_again(self) -> None:
        """Decide the statuses of all spaces again."""
        self._owed |= {key for key in self._looked_at if key.kind == "AddressSpace"}
        self._due.set()

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
            self._due.set()
            await passed.wait()

    def recover_usage(self, known: Mapping[str, tuple[Usage, ...]]) -> None:
        """Restore the usage that a killed process had not written. Call before the first pass."""
        self._book.recover(known)

    def unsaved_usage(self) -> dict[str, tuple[Usage, ...]]:
        """Return the usage of spaces, by uid, in periods that the status lacks."""
        return self._book.unsaved_periods()

    def note_answers(self, answers: Mapping[Key, Answer]) -> None:
        """Record the responses of authentication services; from the first call on services without
        one are not ready.
        """
        before = self._answers or {}
        changed = {
            key for key in answers.keys() | before.keys() if answers.get(key) != before.get(key)
        }
        is_first, self._answers = self._answers is None, answers
        if is_first:
            changed |= {key for key in self._looked_at if key.kind == "AuthenticationService"}
        if changed:
            self._owed |= changed
            self._due.set()

    def prove_again(self) -> None:
        """The engine reported an event: query its confirmation again."""
        self._doubted = True
        self._due.set()

    def note_usage(self, figures: Sequence[SpaceFigures]) -> None:
        """Record the traffic of spaces. The next pass informs the engine of allowances that are
        used up or available again.
        """
        now = self._clock.now()
        moved = self._book.count(figures, self._allowance_of, now)
        # For other spaces only a changed plan matters, which a pass handles.
        among = moved | self._exhausted.keys()
        exhausted = self._book.exhausted(self._allowance_of, now, among) if among else {}
        if exhausted != self._exhausted:
            self._due.set()

    def note_stored(self, stored: Mapping[str, int]) -> None:
        """Record the stored bytes of spaces, by full name."""
        uids = {
            f"{key.name}.{key.namespace}": uid
            for uid, key in self._by_uid.items()
            if key.kind == "AddressSpace"
        }
        found = {uids[name]: count for name, count in stored.items() if name in uids}
        self._book.note_stored(found, self._allowance_of, self._clock.now())

    async def save_usage(self) -> None:
        """Write unsaved usage records."""
        unsaved = self._book.unsaved()
        keys = [self._by_uid[uid] for uid in unsaved if uid in self._by_uid]
        for some in _portions(keys):
            async with self._writing:
                found = [self._store.get(key) for key in some]
                spaces = [self._told(one) for one in found if isinstance(one, AddressSpace)]
                await self._store.put_status(spaces)
        self._book.saved(unsaved)
        await self._departed.write(self._clock.now())

    def _allowance_of(self, uid: str) -> Allowance | None:
        # The last traffic of a deleted space has not been counted yet.
        found = self._compiler.space(self._by_uid[uid]) if uid in self._by_uid else None
        return self._compiler.catalogue.allowance(found) if found else None

    def _told(self, space: AddressSpace) -> AddressSpace:
        uid = space.metadata.uid or ""
        allowance, spent = self._allowance_of(uid), self._exhausted.get(uid)
        return self._book.told(space, allowance, spent, self._clock.now())

    def _with_endpoints(self, space: AddressSpace) -> AddressSpace:
        problem = self._exports.problem(space.key)
        shown = self._certificates.shown(space.metadata.uid)
        return with_endpoints(space, self._place, shown, problem, self._clock.now())

    def _judge(self) -> set[Key]:
        """Record the spaces whose allowance is used up; return those that changed."""
        before = self._exhausted
        now = self._book.exhausted(self._allowance_of, self._clock.now())
        self._exhausted = now
        self._compiler.exhaust(self._by_uid[uid] for uid in now)
        changed = (uid for uid in before.keys() | now.keys() if before.get(uid) != now.get(uid))
        return {self._by_uid[uid] for uid in changed if uid in self._by_uid}

    async def _watch(self) -> None:
        """Wake the loop, except for statuses that it wrote itself."""
        while True:
            since = self._store.version
            self._due.set()
            try:
                async for event in self._store.watch(since):
                    if not isinstance(event.resource, Declared):
                        if event.resource.kind in EXPORTED or event.resource.key == PLATFORM:
                            self._due.set()
                        continue
                    known = self._looked_at.get(event.resource.key)
                    if event.type is EventType.DELETED or known != _identity(event.resource):
                        self._due.set()
            except Conflict as error:
                if error.code != Code.VERSION_EXPIRED:
                    raise

    async def _work(self) -> None:
        failures = 0
        rested = self._clock.monotonic()
        while True:
            await self._wait(failures)
            if (rest_s := rested - self._clock.monotonic()) > 0:
                await self._clock.sleep(rest_s)
                self._due.clear()
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
                failures = 0 if self._is_served else failures + 1
                self._reached = version
                self._passed.set()
                self._passed = asyncio.Event()
            ended = self._clock.monotonic()
            if self._count > FEW:
                rested = ended + min(REST_TIMES * (ended - began), REST_MAX_S)

    async def _wait(self, failures: int) -> None:
        """Wait until a pass is due: after a change, at a retry, or for a full pass.

        A change does not wait for the retry: it may be the remedy.
        """
        delay_s = max(self._resync_at - self._clock.monotonic(), 0.0)
        if failures:
            delay_s = self._backoff.delay_s(failures)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._due.wait()
        self._due.clear()

    async def _pass(self, version: int) -> None:
        """Synchronise engine and statuses with the store.

        Raises: the refusal of the engine, after the statuses report it.
        """
        resync = self._clock.monotonic() >= self._resync_at
        changed = await self._take_in()
        # Work left by a failure is repeated by the next pass.
        self._owed |= changed | (set(self._looked_at) if resync else set())
        changed |= await self._take_in_passwords()
        self._count = len(changed)
        owed, self._owed = self._owed | changed, set()
        try:
            await self._bring_about(owed, version, prove=resync)
        except BaseException:
            self._owed |= owed
            raise
        if resync:
            self._resync_at = self._clock.monotonic() + RESYNC_S

    async def _bring_about(self, owed: set[Key], version: int, *, prove: bool) -> None:
        """Synchronise engine, statuses and exports; add the affected resources to `owed`."""
        owed |= self._compiler.refresh() | self._judge()
        await self._publish()
        beside = frozenset(self._beside)
        refusal: EnMasseError | None = None
        uncertified = await self._certify(owed, beside)
        try:
            owed |= await self._serve(version, prove=prove)
        except EnMasseError as error:
            refusal = error
        # Users with passwords not derived yet report that until the next pass.
        later = owed & self._passwords.waiting
        self._owed |= later
        await self._write_statuses(owed - later, version, refusal)
        await self._export(owed, beside)
        await self._departed.write(self._clock.now())
        if (failed := refusal or uncertified) is not None:
            raise failed

    @property
    def _is_served(self) -> bool:
        """Whether a retry by the engine is pointless."""
        return self._proof is None or self._proof.is_final

    async def _serve(self, version: int, *, prove: bool) -> set[Key]:
        """Apply the Plan and confirm it, unless that has been done.

        Returns the resources whose confirmation changed.

        Raises: the refusal of the engine.
        """
        wanted = self._compiler.plan(version)
        before = self._proof
        doubted, self._doubted = self._doubted or prove, False
        try:
            if self._plan is not None and doubted:
                self._proof = await self._engine.prove()
            plan, proof = self._plan, self._proof
            holds = plan and proof and plan.version == proof.version and plan.says_as(wanted)
            if not holds or not self._is_served:
                self._proof = await self._engine.apply(wanted)
                self._plan = wanted
        except EnMasseError:
            self._doubted = doubted
            raise
        uids = self._proof.differing(before) if self._proof else set()
        return {self._by_uid[uid] for uid in uids if uid in self._by_uid}

    async def _certify(self, owed: set[Key], beside: frozenset[Key]) -> EnMasseError | None:
        """Activate certificates of spaces, and add affected spaces to `owed`.

        Returns the reason of a failure, which does not prevent serving.
        """
        spaces = self._spaces(owed, self._certificates.due(beside))
        try:
            owed |= await self._certificates.follow(spaces, frozenset(self._spaces_gone))
        except EnMasseError as error:
            owed |= {one.key for one in spaces}
            return error
        return None

    def _spaces(self, keys: Iterable[Key], uids: Iterable[str]) -> list[AddressSpace]:
        """Return the spaces among some keys, and those of some uids."""
        wanted = {key for key in keys if key.kind == "AddressSpace"}
        wanted |= {self._by_uid[uid] for uid in uids if uid in self._by_uid}
        found = [self._store.get(key) for key in sorted(wanted)]
        return [one for one in found if isinstance(one, AddressSpace)]

    async def _export(self, touched: set[Key], beside: frozenset[Key]) -> None:
        """Synchronise exports with the statuses just written."""
        if self._place is None:
            return
        spaces = self._spaces(touched, self._exports.spaces_of(beside))
        gone = frozenset(self._spaces_gone)
        differing = await self._exports.follow(spaces, gone)
        self._spaces_gone -= gone
        self._beside -= beside
        if differing:
            self._owed |= differing
            self._due.set()

    async def _take_in(self) -> set[Key]:
        """Pass changes of the store to the compiler; return their keys."""
        keys: Iterable[Key]
        try:
            if self._taken_in is None:
                self._departed.read()
                keys = [one.key for one in self._store.list()]
            else:
                keys = {event.resource.key for event in self._store.changes(self._taken_in)}
        except Conflict as error:
            if error.code != Code.VERSION_EXPIRED:
                raise
            keys = {PLATFORM, *self._looked_at, *(one.key for one in self._store.list())}
        taken_in, keys = self._store.version, set(keys)
        if any(self._goes(key) for key in keys):
            # The engine discards its counters with the space.
            self.note_usage(await self._engine.usage())
        self._taken_in = taken_in
        self._beside |= {key for key in keys if key.kind in EXPORTED}
        changed: set[Key] = set()
        for some in _portions(keys):
            changed.update(key for key in some if self._look_at(key))
            await asyncio.sleep(0)
        return changed

    def _goes(self, key: Key) -> bool:
        """Whether a processed address space was deleted or replaced."""
        known = self._looked_at.get(key) if key.kind == "AddressSpace" else None
        found = self._store.get(key) if known else None
        return known is not None and (found is None or found.metadata.uid != known[0])

    async def _take_in_passwords(self) -> set[Key]:
        """Pass users with changed passwords in Secrets to the compiler; return their keys."""
        users = await self._passwords.derive(self._beside)
        for user in users:
            self._compiler.put(user.key, user)
        if self._passwords.waiting:
            self._due.set()
        return {user.key for user in users}

    def _look_at(self, key: Key) -> bool:
        """Pass a resource to the compiler if it changed; return whether it did."""
        found = self._store.get(key)
        if key == PLATFORM:
            self._compiler.put(key, found)
            return False
        resource = found if isinstance(found, Declared) else None
        now = _identity(resource) if resource else None
        before = self._looked_at.get(key)
        if now == before:
            return False
        if before is not None and before[0] is not None and (now is None or now[0] != before[0]):
            self._by_uid.pop(before[0], None)
            if key.kind == "AddressSpace":
                used = self._book.close(before[0])
                self._departed.note((key.namespace, key.name), used, self._clock.now())
                self._spaces_gone.add(before[0])
        if now is None:
            self._looked_at.pop(key, None)
        else:
            self._looked_at[key] = now
            if now[0] is not None:
                self._by_uid[now[0]] = key
        if isinstance(resource, AddressSpace):
            self._book.open(resource, self._departed.of((key.namespace, key.name)))
        if key.kind == "MessagingUser":
            user = resource if isinstance(resource, MessagingUser) else None
            resource = self._passwords.put(key, user)
        self._compiler.put(key, resource)
        return True

    async def _publish(self) -> None:
        """Publish the schemas if they changed."""
        catalogue = self._compiler.catalogue
        if catalogue is not self._published:
            await self._computed.put(schemas(catalogue))
            self._published = catalogue

    async def _write_statuses(
        self, keys: Iterable[Key], version: int, refusal: EnMasseError | None
    ) -> None:
        """Write statuses in portions; a failed portion does not affect others.

        Raises: the first failure.
        """
        failed: EnMasseError | None = None
        for some in _portions(sorted(keys)):
            try:
                async with self._writing:
                    before, after = await self._write_some(some, version, refusal)
            except EnMasseError as error:
                failed = failed or error
                continue
            news = [happened(*one) for one in zip(before, after, strict=True)]
            await self._events.record(one for one in news if one is not None)
            await asyncio.sleep(0)
        if failed is not None:
            raise failed

    async def _write_some(
        self, keys: list[Key], version: int, refusal: EnMasseError | None
    ) -> tuple[list[Declared], list[Declared]]:
        """Write the statuses of some resources; return their old and new states."""
        resources = [self._store.get(key) for key in keys]
        ordered = [one for one in resources if isinstance(one, Declared)]
        outcomes = {one.key: self._compiler.outcome(one.key) for one in ordered}
        seen = Seen(
            version=self._plan.version if self._plan else version,
            left_out={key: one.left_out for key, one in outcomes.items() if one.left_out},
            waiting={key: one.waiting for key, one in outcomes.items() if one.waiting},
            proof=self._proof,
            refusal=refusal,
            now=self._clock.now(),
            answers=self._answers,
        )
        decided: list[Declared] = []
        for resource in ordered:
            status = decide(resource, seen, CHAINS[resource.kind])
            now = resource.with_status(status)
            if isinstance(now, Address):
                now = address.with_effective(now, outcomes[now.key])
                now = address.with_losses(now, seen)
            elif isinstance(now, AddressSpace):
                now = address_space.with_login(now, outcomes[now.key].unentered, seen.now)
                now = address_space.with_names(now, outcomes[now.key].misnamed, seen.now)
                now = self._with_endpoints(self._told(now))
            decided.append(with_unimplemented(now, seen.now))
        await self._store.put_status(decided)
        return ordered, decided


def _portions(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    rest = iter(items)
    while some := list(islice(rest, AT_A_TIME)):
        yield some


def _identity(resource: Resource) -> _Identity:
    return resource.metadata.uid, resource.metadata.generation
