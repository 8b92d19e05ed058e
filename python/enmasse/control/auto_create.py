"""Addresses that links create, and that are deleted when they are unused.

Both are like requests to the API: admission decides them, quotas apply, and the audit trail has
them. The address's home in the node decides whether it is in use. It seals the address first, so
that no link attaches before the deletion.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Conflict, EnMasseError, Invalid
from enmasse.control.admission import Admission
from enmasse.engines import AddressStatistics, Observed
from enmasse.resources import Address, AddressSpace, Key, parse
from enmasse.resources.auto_create import (
    CREATED_BY,
    EXPIRE_AFTER,
    OWNER,
    OWNER_LABEL,
    Creation,
    choose,
    expiry_ms,
)
from enmasse.resources.naming import hashed_name, resource_name
from enmasse.store import Store, changed_keys

log = structlog.get_logger(__name__)

LOOK_S = 1.0
"""Interval of checking addresses that may expire."""

SYSTEM = "system:enmasse"
"""User name of deletions in the audit trail."""


class SealingEngine(Protocol):
    """The part of the engine that expiry needs."""

    async def observe(self) -> Observed:
        """Return the present statistics."""

    async def seal_unused(self, uid: str, *, seal: bool) -> bool:
        """Seal an address that is not in use, or lift the seal; return whether it is sealed."""


class AutoCreateRecord(NamedTuple):
    """A creation or deletion, for the audit trail."""

    verb: str
    key: Key
    user: str | None
    """The user of the link; None: without a name."""

    error: EnMasseError | None = None
    """The refusal, if it was refused."""


Note = Callable[[AutoCreateRecord], None]


class AutoCreation:
    """Creates the addresses that links request."""

    def __init__(self, store: Store, admission: Admission, note: Note) -> None:
        """Create addresses in `store` through `admission`, and report them to `note`."""
        self._store = store
        self._admission = admission
        self._note = note

    async def create(self, wanted: Mapping[str, Any]) -> str | None:
        """Create the address of a request; `_native.pyi` has its members.

        Return the reason of a refusal; None if the address exists.
        """
        name, _, namespace = wanted["space"].partition(".")
        space = self._store.get(Key("AddressSpace", namespace, name))
        if not isinstance(space, AddressSpace):
            return f"there is no address space {wanted['space']}"
        asked = wanted["type"]
        creation = choose(space.spec.auto_create, wanted["patterns"], asked)
        if creation is None:
            what = asked or "address"
            return (
                f"no {what} is created under the name {wanted['address']!r} in address space"
                f" {name}; ask for another type, or declare the address"
            )
        try:
            address = _address(space, wanted["address"], wanted["user"], creation, self._store)
        except Invalid as error:  # such as a name with invisible characters
            return f"no address is created under this name: {error.message}"
        try:
            await self._admission.create(address)
        except Conflict as error:
            if error.code in (Code.ALREADY_EXISTS, Code.ADDRESS_TAKEN):
                # A concurrent request created it; the Plan determines its type.
                return None
            return self._refused(address, wanted["user"], error)
        except EnMasseError as error:
            return self._refused(address, wanted["user"], error)
        self._note(AutoCreateRecord("create", address.key, wanted["user"]))
        return None

    def _refused(self, address: Address, user: str | None, error: EnMasseError) -> str:
        self._note(AutoCreateRecord("create", address.key, user, error))
        return f"the address {address.spec.address!r} was not created: {error.message}"


def _address(
    space: AddressSpace, name: str, user: str | None, creation: Creation, store: Store
) -> Address:
    namespace = space.metadata.namespace
    own_name = resource_name(space.metadata.name, name)
    there = store.get(Key("Address", namespace, own_name))
    if isinstance(there, Address) and there.spec.address != name:
        # The resource name belongs to another address.
        own_name = hashed_name(space.metadata.name, name)
    annotations = {CREATED_BY: user} if user else {}
    if creation.rule.expire_after is not None:
        annotations[EXPIRE_AFTER] = f"{creation.rule.expire_after}ms"
    spec = {"address": name, "type": creation.type, "plan": creation.rule.plan}
    made = parse(
        {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "Address",
            "metadata": {
                "name": own_name,
                "namespace": namespace,
                "labels": {OWNER_LABEL: OWNER},
                "annotations": annotations,
            },
            "spec": {field: value for field, value in spec.items() if value is not None},
        }
    )
    assert isinstance(made, Address)
    return made


@dataclass(slots=True)
class _Watched:
    """An address that may expire."""

    address: Address
    statistics: AddressStatistics | None
    unused_since: float


class Expiry:
    """Deletes addresses of `autoCreate` that have been unused for their expiry time."""

    def __init__(
        self, store: Store, admission: Admission, engine: SealingEngine, clock: Clock, note: Note
    ) -> None:
        """Delete from `store` through `admission` what `engine` reports as unused."""
        self._store = store
        self._admission = admission
        self._engine = engine
        self._clock = clock
        self._note = note
        self._applied_version: int | None = None
        self._watched: dict[Key, _Watched] = {}

    async def run(self) -> None:
        """Check periodically, until cancelled."""
        while True:
            try:
                await self.check_expiry()
            except EnMasseError as error:
                log.warning("check for unused addresses failed", reason=error.message)
            await self._clock.sleep(LOOK_S)

    async def check_expiry(self) -> None:
        """Delete the addresses that have expired.

        An address counts as used when it is first seen, because use is not recorded over a restart.
        """
        self._apply_changes()
        if not self._watched:
            return
        observed = await self._engine.observe()
        by_uid = {one.uid: one for one in observed.addresses}
        now = self._clock.monotonic()
        for key, watched in list(self._watched.items()):
            statistics = by_uid.get(watched.address.metadata.uid or "")
            if statistics is not None:
                statistics = statistics._replace(oldest_age_s=0.0)
            if _is_used(statistics) or statistics != watched.statistics:
                watched.statistics, watched.unused_since = statistics, now
            elif now - watched.unused_since >= (expiry_ms(watched.address) or 0) / 1000:
                watched.unused_since = now
                await self._delete(key, watched.address)

    def _apply_changes(self) -> None:
        """Apply declarations and deletions since the last check."""
        keys = changed_keys(self._store, self._applied_version)
        if keys is None:
            keys = {*self._watched, *(one.key for one in self._store.list("Address"))}
        self._applied_version = self._store.version
        for key in keys:
            if key.kind == "Address":
                self._track(key)

    def _track(self, key: Key) -> None:
        found = self._store.get(key)
        if not isinstance(found, Address) or expiry_ms(found) is None or found.is_terminating:
            self._watched.pop(key, None)
            return
        watched = self._watched.get(key)
        if watched is None or watched.address.metadata.uid != found.metadata.uid:
            self._watched[key] = _Watched(found, None, self._clock.monotonic())
        else:
            watched.address = found

    async def _delete(self, key: Key, address: Address) -> None:
        """Delete an address, unless it is in use or has been changed."""
        uid = address.metadata.uid or ""
        if not await self._engine.seal_unused(uid, seal=True):
            return
        try:
            # Removing the label keeps the address: its version then differs.
            version = address.metadata.resource_version
            gone = await self._admission.delete(key, uid=uid, version=version)
        except EnMasseError as error:
            log.info("unused address stays", address=str(key), reason=error.message)
            await self._engine.seal_unused(uid, seal=False)
            return
        if gone.is_terminating and self._store.get(key) is not None:
            # An address with finalizers stays in the Plan until they are removed.
            await self._engine.seal_unused(uid, seal=False)
        self._note(AutoCreateRecord("delete", key, SYSTEM))


def _is_used(statistics: AddressStatistics | None) -> bool:
    if statistics is None:
        return False
    return any((statistics.senders, statistics.receivers, statistics.stored, statistics.waiting))
