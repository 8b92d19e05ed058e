"""A store in a Kubernetes API server: declared kinds are custom resources.

All resources are also in memory, as in the other stores: one list, then a watch per kind. Versions,
uids, generations and times are the server's; versions have gaps. Others may write as well, for
example with kubectl: their writes are served if admission would accept them on their own, completed
as admission would, and otherwise marked as refused in the status.

Kubernetes has no transactions. A writer holds a lease as lock among all processes; several
resources are validated together (dry run) and then written one by one. A crash in between leaves
those already written; repeating the request writes the rest.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, EnMasseError, Invalid, Missing, Unavailable
from enmasse.base.tasks import Backoff
from enmasse.resources import Declared, Key, Namespace, Resource
from enmasse.resources.crd import definitions
from enmasse.store.cluster import Cluster
from enmasse.store.cluster_api import APPLY, JSON_PATCH, ClusterApi
from enmasse.store.cluster_kinds import ClusterKind, kinds, version_of
from enmasse.store.cluster_lease import ClusterLeading, WritersTurn
from enmasse.store.cluster_nodes import ClusterNodes
from enmasse.store.cluster_unadmitted import Unadmitted
from enmasse.store.memory import MemoryStore, MemoryTurn
from enmasse.store.polling import SharedPoll
from enmasse.store.protocol import Completing, Event, EventType, Turn

log = structlog.get_logger(__name__)

ATTEMPTS = 5
"""Attempts to write a resource whose status changes concurrently."""

AT_ONCE = 16
"""Maximum concurrent requests."""

SEEN_WAIT_S = 5.0
"""Maximum wait for a watch to show a write; after that the kind is listed."""

SERVED_WAIT_S = 30.0
"""Maximum wait for the server to serve new definitions."""

POLL_S = 0.05
STEP = 100
"""Resources processed before the loop yields to other tasks."""

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAMESPACES = "/api/v1/namespaces"
Document = dict[str, Any]


class KubernetesStore(MemoryStore):
    """A `Store` in a Kubernetes API server. Open it with `open`, and run `follow` concurrently."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        super().__init__(clock)
        self._api = api
        self._kinds = kinds()
        self._leading = ClusterLeading(api, clock)
        self._writers = WritersTurn(api, clock)
        self._nodes = ClusterNodes(api, clock)
        self._shared_poll = SharedPoll(self._read_others_writes)
        self._requests = asyncio.Semaphore(AT_ONCE)
        self._gone: dict[Key, int] = {}
        """Versions of deletions for which a watch may still deliver earlier events."""

        self._unadmitted = Unadmitted(api, self._leading, clock, self._kinds, self._take)
        self._following = False
        self._moved = asyncio.Event()

    @classmethod
    async def open(cls, url: str, clock: Clock) -> "KubernetesStore":
        """Connect to a cluster, install the definitions if needed, and read everything.

        Raises: Invalid if the URL or the kubeconfig is unusable; Unavailable if the server is.
        """
        store = cls(ClusterApi(Cluster(url, clock)), clock)
        try:
            await store._install()
            listed = [await store._list_again(kind) for kind in store._kinds.values()]
            store._check_served()
            store._version = max(store._version, *listed)
            store._history.reset(store._version)
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def is_guarded(self) -> bool:
        """Anyone with rights in the cluster can write directly."""
        return False

    @property
    def leadership(self) -> ClusterLeading:
        """The lease of the leader."""
        return self._leading

    @property
    def writes_together(self) -> bool:
        """Every resource is a separate request, validated first if there are several."""
        return False

    async def put_status(self, resources: Sequence[Declared]) -> None:
        """Write statuses if this process leads; a refused one does not affect the others.

        Raises: Unavailable (STANDING_BY) if it does not lead; the server's refusal, after all
            writes.
        """
        change = self._begin()
        change.put_status(resources)
        if not change.events:
            return
        await self._leading.check()
        done = await self._each(self._write_status(one.resource) for one in change.events)
        written = [one for one in done if isinstance(one, dict)]
        for one in sorted(written, key=version_of):
            self._take(self._kinds[one["kind"]], one)
        _raise_first(done)

    async def refresh(self) -> None:
        """Return once all writes that other processes admitted before the call are visible here.
        Concurrent calls share one read. Direct writes to the cluster arrive with the watch.
        """
        await self._shared_poll.done()

    async def follow(self) -> None:
        """Apply changes of others until cancelled; restart a watch that ends."""
        self._following = True
        try:
            async with asyncio.TaskGroup() as tasks:
                for kind in self._kinds.values():
                    tasks.create_task(self._follow(kind), name=f"watch {kind.name}")
                tasks.create_task(self._unadmitted.report(lambda: self._moved), name="refused")
        finally:
            self._following = False

    async def complete(self, completed: Completing) -> None:
        """Complete and refuse direct writes, until cancelled."""
        await self._unadmitted.complete(lambda: self._moved, completed)

    async def close(self) -> None:
        """Wait for the writer and disconnect."""
        async with self._writing:
            await self._leading.close()
            await self._api.close()

    async def _install(self) -> None:
        """Ensure that the server knows our kinds and that the namespace of the leases exists."""
        for definition in definitions():
            path = f"{_DEFINITIONS}/{definition['metadata']['name']}"
            try:
                await self._api.get(path)
            except Missing:
                await self._api.write("PATCH", path, definition, media=APPLY, strict=False)
        async with asyncio.timeout(SERVED_WAIT_S):
            for kind in self._kinds.values():
                await self._served(kind)
        namespace = self._api.namespace
        path = f"{_NAMESPACES}/{namespace}"
        try:
            found = await self._api.get(path)
        except Missing:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            with suppress(Conflict):
                await self._api.write("POST", _NAMESPACES, body)
            found = await self._api.get(path)
        self._identity = str(found["metadata"]["uid"])

    async def _served(self, kind: ClusterKind) -> None:
        while True:
            try:
                await self._api.revision(kind.several())
                return
            except Missing:
                await asyncio.sleep(POLL_S)

    def _check_served(self) -> None:
        """Check that every resource with messages is readable: a starting node deletes the messages
        of addresses that its Plan lacks.

        Raises: Unavailable if one is not.
        """
        for key, why in self._unadmitted.may_hold_messages():
            raise Unavailable(
                Code.STORE_UNUSABLE,
                f"{self._api.name}: {why}; the address was served and may hold"
                f" messages: correct {key} in namespace {key.namespace}, or"
                " delete it",
            )

    def _new_turn(self) -> Turn:
        return _ClusterTurn(self)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._writing:
            others = await self._writers.begin()
            try:
                await self._catch_up(others)
                yield
            finally:
                await self._writers.end()

    async def _read_others_writes(self) -> None:
        await self._catch_up(await self._writers.read_others_writes(refresh=True))

    async def _catch_up(self, written: Mapping[str, int]) -> None:
        """Return once the write is visible here."""

        def behind() -> list[ClusterKind]:
            found = self._kinds.values()
            return [one for one in found if one.progress < written.get(one.name, 0)]

        if self._following and behind():
            await self._until(lambda: not behind())
        for kind in behind():
            await self._list_again(kind)

    async def _until(self, condition: Callable[[], bool]) -> bool:
        """Wait for the watches to catch up; False on time-out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SEEN_WAIT_S):
                while not condition():
                    await self._moved.wait()
        return condition()

    # Reading

    async def _follow(self, kind: ClusterKind) -> None:
        backoff, failures = Backoff(), 0
        while True:
            try:
                watch = self._api.watch(kind.several(), kind.progress, **kind.selection)
                async with aclosing(watch) as events:
                    async for event in events:
                        failures = 0
                        self._take_event(kind, event)
            except Conflict as error:
                log.info("changes are no longer kept", kind=kind.name, reason=error.message)
                failures += await self._listed_again(kind)
            except EnMasseError as error:
                failures += 1
                log.warning("watch interrupted", kind=kind.name, reason=error.message)
            if failures:
                await self._clock.sleep(backoff.delay_s(failures))

    async def _listed_again(self, kind: ClusterKind) -> bool:
        """List a kind; return whether that failed."""
        try:
            await self._list_again(kind)
        except EnMasseError as error:
            log.warning("cannot be listed", kind=kind.name, reason=error.message)
            return True
        return False

    async def _list_again(self, kind: ClusterKind) -> int:
        """Synchronise a kind with the server, announcing deletions too. Return the version of the
        list.
        """
        items, version = await self._api.list(kind.several(), **kind.selection)
        there = set()
        for number, item in enumerate(items, start=1):
            there.add(kind.key(item))
            self._take(kind, item)
            if number % STEP == 0:
                await asyncio.sleep(0)
        held = (one.key for one in self._resources.listed(kind.name))
        known = {key for key in (*held, *self._unadmitted.keys()) if key.kind == kind.name}
        for key in known - there:
            if self._known(key) <= version:
                self._apply_deletion(key, version)
        self._progressed(kind, version)
        return version

    def _take_event(self, kind: ClusterKind, event: Document) -> None:
        found = event["object"]
        version = version_of(found)
        if event["type"] == "DELETED":
            self._apply_deletion(kind.key(found), version)
        elif event["type"] != "BOOKMARK":
            self._take(kind, found)
        self._progressed(kind, version)

    def _progressed(self, kind: ClusterKind, version: int) -> None:
        kind.progress = max(kind.progress, version)
        self._gone = {
            key: gone
            for key, gone in self._gone.items()
            if key.kind != kind.name or gone > kind.progress
        }
        self._moved.set()
        self._moved = asyncio.Event()

    def _known(self, key: Key) -> int:
        """Return the newest version seen of a resource."""
        current = self._resources.get(key)
        return max(
            self._gone.get(key, 0),
            self._unadmitted.version(key),
            int(current.metadata.resource_version or 0) if current else 0,
        )

    def _take(self, kind: ClusterKind, document: Document) -> Resource | None:
        """Apply a resource of the server; return it unless it is served otherwise."""
        key, version = kind.key(document), version_of(document)
        if version <= self._known(key):
            return self._resources.get(key)
        before = self._resources.get(key)
        if before is not None and before.metadata.uid != document["metadata"]["uid"]:
            # It was deleted and created again without an event in between.
            self._show(EventType.DELETED, before, version, before)
            before = None
        resource = self._unadmitted.seen(kind, document, before)
        if resource is None:
            return None
        type_ = EventType.ADDED if before is None else EventType.MODIFIED
        self._show(type_, resource, version, before)
        return resource

    def _apply_deletion(self, key: Key, version: int) -> None:
        if version <= self._gone.get(key, 0):
            return
        self._unadmitted.forget(key)
        if (before := self._resources.get(key)) is not None:
            if version < int(before.metadata.resource_version or 0):
                return  # An event from before its deletion.
            last = before.with_metadata(resource_version=str(version))
            self._show(EventType.DELETED, last, version, before)
        self._gone[key] = version

    def _show(
        self, type_: EventType, resource: Resource, version: int, before: Resource | None
    ) -> None:
        # Events of one kind may arrive later than newer events of another kind.
        self._apply([Event(type_, resource, max(self._version, version), before)])

    # Writing

    async def _finish(
        self, events: Sequence[Event], *, dry_run: bool = False
    ) -> Mapping[Key, Resource]:
        if dry_run:
            return {one.resource.key: await self._validated(one) for one in events}
        if len(events) > 1:
            await self._validate_all(events)
        became: dict[Key, Resource] = {}
        for event in events:
            try:
                await self._writers.keep()
                became[event.resource.key] = await self._write(event)
            except EnMasseError as error:
                if became:
                    done = f"{len(became)} of {len(events)} resources are written"
                    error.message += f" ({done}; repeat the request for the others)"
                raise
        return became

    async def _validate_all(self, events: Sequence[Event]) -> None:
        """Validate several writes on the server (dry run); those in a new namespace cannot be
        validated.

        Raises: the first refusal of the server.
        """
        new = {one.resource.metadata.name for one in events if isinstance(one.resource, Namespace)}
        tried = (
            self._validated(one)
            for one in events
            if one.type is not EventType.DELETED and one.resource.metadata.namespace not in new
        )
        await self._all(tried)

    async def _validated(self, event: Event) -> Resource:
        if event.type is EventType.DELETED or _marks_deletion(event):
            return event.resource
        kind = self._kinds[event.resource.kind]
        return kind.resource(await self._send(kind, event, dry_run=True))

    async def _write(self, event: Event) -> Resource:
        kind, key = self._kinds[event.resource.kind], event.resource.key
        if _is_deletion(event):
            document = await self._delete(kind, event)
        else:
            document = await self._send(kind, event)
        metadata = (document or {}).get("metadata", {})
        stays = event.type is not EventType.DELETED or issubclass(kind.model, Namespace)
        if document is not None and stays and metadata.get("uid"):
            self._writers.note(kind.name, version_of(document))
            self._take(kind, document)
            return kind.resource(document)
        version = await self._wait_until_deleted(kind, key, event.resource.metadata.uid)
        self._writers.note(kind.name, version)
        return event.resource.with_metadata(resource_version=str(version))

    async def _send(self, kind: ClusterKind, event: Event, *, dry_run: bool = False) -> Document:
        """Create or replace a resource; a change of status alone does not count as a change."""
        resource, before = event.resource, event.before
        if before is None:
            path = kind.several(resource.metadata.namespace)
            body = kind.document(resource, version=None, uid=None)
            return await self._api.write("POST", path, body, dry_run=dry_run)
        for _ in range(ATTEMPTS):
            version, uid = str(self._known(resource.key)), before.metadata.uid
            body = kind.document(resource, version=version, uid=uid)
            if event.type is EventType.DELETED:
                body["metadata"].pop("finalizers", None)
            try:
                return await self._api.write("PUT", kind.one(resource.key), body, dry_run=dry_run)
            except Conflict as error:
                now = await self._read(kind, resource.key)
                if now is None or not _is_like(now, before):
                    raise self._changed(resource.key) from error
            except Missing as error:
                await self._wait_until_deleted(kind, resource.key, uid)
                raise self._changed(resource.key) from error
        raise self._changed(resource.key)

    async def _delete(self, kind: ClusterKind, event: Event) -> Document | None:
        """Request the deletion of a resource; return it if finalizers keep it."""
        before = event.resource
        try:
            found = await self._api.delete(kind.one(before.key), before.metadata.uid)
        except Missing:
            return None
        return None if found.get("kind") == "Status" else found

    async def _wait_until_deleted(self, kind: ClusterKind, key: Key, uid: str | None) -> int:
        """Wait until a deletion is visible; return its version, or a later one."""

        def is_gone() -> bool:
            found = self._resources.get(key)
            return found is None or found.metadata.uid != uid

        if not (self._following and await self._until(is_gone)):
            version = await self._api.revision(kind.several())
            if not is_gone():
                self._apply_deletion(key, version)
            return version
        return self._gone.get(key, kind.progress)

    async def _read(self, kind: ClusterKind, key: Key) -> Resource | None:
        try:
            return self._take(kind, await self._api.get(kind.one(key)))
        except Missing:
            return None

    async def _write_status(self, resource: Resource) -> Document | None:
        """Write a status; None if the resource was deleted or created again."""
        kind, uid = self._kinds[resource.kind], resource.metadata.uid
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": resource.document()["status"]},
        ]
        path = kind.one(resource.key)
        try:
            return await self._api.write("PATCH", f"{path}/status", patch, media=JSON_PATCH)
        except Missing:
            return None
        except Invalid:
            # Another uid, or a status that the definition does not allow.
            with suppress(Missing):
                if (await self._api.get(path))["metadata"]["uid"] == uid:
                    raise
            return None

    async def _all(self, several: Iterable[Any]) -> list[Any]:
        """Run requests with bounded concurrency; raise the first error once all have ended."""
        done = await self._each(several)
        _raise_first(done)
        return done

    async def _each(self, several: Iterable[Any]) -> list[Any]:
        """Run requests with bounded concurrency; return each result or exception."""

        async def one_of(one: Any) -> Any:
            async with self._requests:
                return await one

        return await asyncio.gather(*map(one_of, several), return_exceptions=True)

    def _changed(self, key: Key) -> Conflict:
        return Conflict(
            Code.VERSION_CONFLICT, f"{key} has changed; read it again and repeat the change"
        )


def _raise_first(done: Iterable[Any]) -> None:
    for one in done:
        if isinstance(one, BaseException):
            raise one


class _ClusterTurn(MemoryTurn):
    """A turn in a store that assigns uids itself."""

    async def replace_all(self, resources: Sequence[Resource]) -> None:
        """Raises: Invalid: this store cannot restore a uid or creation time."""
        raise Invalid(
            Code.OPERATION_UNFIT,
            "a backup cannot be restored into Kubernetes, which assigns its own"
            " uids; restore into a folder with --store sqlite, or apply the"
            " resources",
        )


def _marks_deletion(event: Event) -> bool:
    """Whether a resource with finalizers is being deleted."""
    was = event.before is not None and event.before.is_terminating
    return event.type is EventType.MODIFIED and event.resource.is_terminating and not was


def _is_deletion(event: Event) -> bool:
    """Whether a change is a deletion, as opposed to an update that removes finalizers."""
    if event.type is not EventType.DELETED:
        return _marks_deletion(event)
    return event.before is None or not event.before.is_terminating


def _is_like(now: Resource, before: Resource) -> bool:
    """Whether only the status changed."""
    same = now.with_metadata(
        resource_version=before.metadata.resource_version,
        managed_fields=before.metadata.managed_fields,
    )
    return same.metadata == before.metadata and same.content() == before.content()
