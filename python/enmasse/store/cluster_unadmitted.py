"""Resources that bypassed admission: kubectl writes to the cluster directly.

The leader completes what admission would fill in, replaces passwords by verifiers, and marks
resources that are not allowed as refused. Stand-bys write none of that.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Conflict, EnMasseError, Invalid, Missing, Unavailable
from enmasse.base.tasks import Backoff
from enmasse.resources import Declared, Key, MessagingUser, Resource
from enmasse.resources.conditions import ready_status
from enmasse.resources.messaging_user import without_readable_password
from enmasse.store.cluster_api import ClusterApi
from enmasse.store.cluster_kinds import REFUSED, ClusterKind, is_refused, version_of
from enmasse.store.cluster_lease import ClusterLeading
from enmasse.store.protocol import Completing

log = structlog.get_logger(__name__)

AT_ONCE = 16
"""Resources completed per batch."""

Document = dict[str, Any]


class _Refused(NamedTuple):
    """A resource that is not allowed."""

    document: Document
    message: str


class _Incomplete(NamedTuple):
    """An incomplete resource, and its last complete form."""

    document: Document
    resource: Resource
    before: Resource | None


class Unadmitted:
    """Refused and incomplete resources, as last seen."""

    def __init__(
        self,
        api: ClusterApi,
        leading: ClusterLeading,
        clock: Clock,
        kinds: Mapping[str, ClusterKind],
        take: Callable[[ClusterKind, Document], object],
    ) -> None:
        """Write through `api` while `leading`; pass each result to `take`."""
        self._api = api
        self._leading = leading
        self._clock = clock
        self._kinds = kinds
        self._take = take
        self._refused: dict[Key, _Refused] = {}
        self._incomplete: dict[Key, _Incomplete] = {}
        self._reporting: set[Key] = set()
        """Resources whose refusal is being written."""

        self._slots = asyncio.Semaphore(AT_ONCE)

    def keys(self) -> Iterable[Key]:
        """Return the keys of all of them."""
        return (*self._refused, *self._incomplete)

    def version(self, key: Key) -> int:
        """Return the last version seen of a resource; 0 if it is neither refused nor incomplete."""
        found = self._refused.get(key) or self._incomplete.get(key)
        return version_of(found.document) if found else 0

    def forget(self, key: Key) -> None:
        """Record that a resource was deleted."""
        self._refused.pop(key, None)
        self._incomplete.pop(key, None)

    def seen(
        self, kind: ClusterKind, document: Document, before: Resource | None
    ) -> Resource | None:
        """Return the resource to serve for the server's present document; None to keep serving
        `before`.
        """
        key = kind.key(document)
        earlier = self._incomplete.get(key)
        self.forget(key)
        try:
            resource = kind.admitted(document, before)
        except EnMasseError as error:
            self._refused[key] = _Refused(document, error.message)
            log.warning("refused and skipped", resource=str(key), reason=error.message)
            return None
        if resource.is_complete:
            return resource
        if earlier is not None and earlier.resource.metadata.uid == resource.metadata.uid:
            before = earlier.before
        self._incomplete[key] = _Incomplete(document, resource, before)
        # Passwords are never readable, not even in a backup.
        return None if isinstance(resource, MessagingUser) else resource

    def may_hold_messages(self) -> Iterable[tuple[Key, str]]:
        """Return refused resources that have been served, with the reason."""
        return [
            (key, one.message)
            for key, one in self._refused.items()
            if (one.document.get("status") or {}).get("planStatus")
        ]

    async def report(self, moved: Callable[[], asyncio.Event]) -> None:
        """Write refusals into the status while this process leads; runs until cancelled.

        `moved` returns the event that the next change sets.
        """
        while True:
            change = moved()
            unreported = [
                (key, one) for key, one in self._refused.items() if not is_refused(one.document)
            ]
            try:
                for key, one in unreported if self._leading.leads else ():
                    await self._leading.check()
                    await self._report(key, one)
            except EnMasseError as error:
                log.info("cannot be reported", reason=error.message)
            await change.wait()

    async def complete(self, moved: Callable[[], asyncio.Event], completed: Completing) -> None:
        """Complete incomplete resources as they arrive; runs until cancelled."""
        backoff, failures = Backoff(), 0
        while True:
            change = moved()
            tries = (self._try(key, completed) for key in list(self._incomplete))
            failures = failures + 1 if any(await asyncio.gather(*tries)) else 0
            with suppress(TimeoutError):
                async with asyncio.timeout(backoff.delay_s(failures) if failures else None):
                    await change.wait()

    async def _try(self, key: Key, completed: Completing) -> bool:
        """Complete one resource if possible; return whether to retry."""
        async with self._slots:
            one = self._incomplete.get(key)
            if one is None or key in self._reporting:
                return False
            try:
                await self._complete(key, one, completed)
            except Unavailable as error:
                log.warning("cannot be completed", resource=str(key), reason=error.message)
                return True
            except (Conflict, Missing):
                pass  # It changed, and the watch delivers the change.
            except Invalid as error:
                if self._incomplete.get(key) is one:
                    del self._incomplete[key]
                    self._refused[key] = _Refused(one.document, error.message)
                    log.warning("not allowed", resource=str(key), reason=error.message)
                    with suppress(EnMasseError):
                        await self._report(key, self._refused[key])
            return False

    async def _complete(self, key: Key, one: _Incomplete, completed: Completing) -> None:
        done = await completed(one.resource, one.before)
        if not done.is_complete:
            return  # A resource that it needs does not exist yet.
        await self._leading.check()
        kind, metadata = self._kinds[key.kind], one.document["metadata"]
        body = kind.document(done, version=metadata["resourceVersion"], uid=metadata["uid"])
        self._take(kind, await self._api.write("PUT", kind.one(key), body))
        log.info("completed", resource=str(key))

    async def _report(self, key: Key, refused: _Refused) -> None:
        if not issubclass(self._kinds[key.kind].model, Declared):
            return  # Only declared kinds have a status for the refusal.
        self._reporting.add(key)
        try:
            await self._write_refusal(key, refused)
        except (Conflict, Missing):
            pass  # It changed, and the watch delivers the change.
        finally:
            self._reporting.discard(key)

    async def _write_refusal(self, key: Key, refused: _Refused) -> None:
        document, message = refused
        kind = self._kinds[key.kind]
        path = kind.one(key)
        if key.kind == MessagingUser.__name__:
            bare = without_readable_password(document)
            if bare is not document:
                document = await self._api.write("PUT", path, bare, strict=False)
                if _is_allowed(kind, document):
                    self._take(kind, document)
                    return
                message += "; its password was removed: set it again"
        model = kind.model.model_fields["status"].annotation
        status = ready_status(
            model.model_validate(document.get("status") or {}, by_alias=True),  # type: ignore[union-attr]
            phase="Failed",
            reason=REFUSED,
            message=message,
            generation=document["metadata"].get("generation", 0),
            now=self._clock.now(),
        )
        body = document | {"status": status.document()}
        self._take(kind, await self._api.write("PUT", f"{path}/status", body, strict=False))


def _is_allowed(kind: ClusterKind, document: Document) -> bool:
    """Whether a resource on its own is valid and complete."""
    try:
        return kind.admitted(document, None).is_complete
    except EnMasseError:
        return False
