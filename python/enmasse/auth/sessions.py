"""Console sessions and one-time codes: opened, found, used and ended.

A lookup reads the store, so a session that any process ended, and one whose token was revoked, is
gone with the next check. A code is redeemed by deleting its Secret at the version that was read:
of several redemptions, in whatever process, the store lets one succeed.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from enmasse.auth.callers import Callers
from enmasse.auth.roles import OWNER, OWNER_CALLER, Caller
from enmasse.auth.session_records import (
    CODE_TYPE,
    ID_LENGTH,
    SESSION_TYPE,
    Identity,
    Record,
    is_proven,
    key_of,
    record_of,
    secret_of,
    used_at,
)
from enmasse.base.clock import Clock
from enmasse.base.errors import Conflict, Missing, Unavailable
from enmasse.base.ids import new_token
from enmasse.resources import Key, Resource, Secret
from enmasse.resources.api_token import DIGEST, TOKEN_TYPE, TOKENS_NAMESPACE
from enmasse.store import Store

CODE_S = 60.0
"""Validity of a one-time code."""

RECORDS_OF_ONE_MAX = 50
"""Sessions, and codes, of one person; beyond it the one that was used longest ago ends."""

USED_S = 60.0
"""Minimum time between two records of a use: each is a write to the store."""

REFRESHES_PER_S = 20
"""Refreshes of the store per second for unknown cookies, which anyone can send."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """When a session ends."""

    idle_s: float = 3600.0
    """After its last use."""

    absolute_s: float = 12 * 3600.0
    """After the login."""

    federated_s: float = 3600.0
    """After a login at an identity provider, which is asked for the roles again only then."""

    def of(self, identity: Identity) -> float:
        """Return the duration of a session of an identity, from its login on."""
        if identity.method == "oidc":
            return min(self.absolute_s, self.federated_s)
        return self.absolute_s


class Opened(NamedTuple):
    """A new session or code, which is shown once."""

    cookie: str
    expires: datetime


class Found(NamedTuple):
    """A valid session and its present caller."""

    record: Record
    caller: Caller


class Writer(Protocol):
    """The writes that sessions need; the admission of the platform."""

    async def create(self, resource: Resource) -> Resource:
        """Create a new resource."""

    async def replace(self, resource: Resource) -> Resource:
        """Change a resource; its version is a precondition."""

    async def delete(
        self, key: Key, *, uid: str | None = None, version: str | None = None
    ) -> Resource:
        """Delete a resource; `uid` and `version` are preconditions."""


class Sessions:
    """The sessions and codes of a store."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        callers: Callers,
        clock: Clock,
        lifetimes: Lifetimes | None = None,
    ) -> None:
        self._store = store
        self._writer = writer
        self._callers = callers
        self._clock = clock
        self.lifetimes = lifetimes or Lifetimes()
        self._refreshes: list[float] = []

    def identity_of(self, caller: Caller) -> Identity | None:
        """Return the identity of a bearer; None if its token is gone."""
        if caller.is_owner:
            return Identity("owner", OWNER)
        if caller.is_federated:
            return Identity("oidc", caller.name, roles=caller.roles, expires=caller.expires)
        digest = self._digest_of_token(caller.name)
        return None if digest is None else Identity("token", caller.name, digest)

    async def open(self, identity: Identity) -> Opened:
        """Begin a session."""
        return await self._create(SESSION_TYPE, identity, self.lifetimes.of(identity))

    async def issue_code(self, identity: Identity) -> Opened:
        """Return a new code that logs the person in once."""
        return await self._create(CODE_TYPE, identity, CODE_S)

    async def redeem(self, code: str) -> Identity | None:
        """Return the identity of a code and make it invalid; None if it is not valid."""
        key = key_of(code)
        if key is None:
            return None
        await self._refresh_for_unknown(key)
        record = record_of(self._store.get(key), CODE_TYPE)
        if record is None or not is_proven(record, code):
            return None
        try:
            await self._writer.delete(key, uid=record.uid, version=record.version)
        except (Missing, Conflict):
            return None  # another request redeemed it
        if record.expires <= self._clock.now():
            return None
        return record.identity if self._caller_of(record) is not None else None

    def find(self, cookie: str) -> Found | None:
        """Return a session as this process knows it; None if there is none or it has ended."""
        key = key_of(cookie)
        record = record_of(self._store.get(key), SESSION_TYPE) if key is not None else None
        if record is None or not is_proven(record, cookie):
            return None
        now = self._clock.now()
        idle_end = record.used + timedelta(seconds=self.lifetimes.idle_s + USED_S)
        if now >= record.expires or now >= idle_end:
            return None
        caller = self._caller_of(record)
        return None if caller is None else Found(record, caller)

    async def look_up(self, cookie: str) -> Found | None:
        """Return a session, also one that another process has just begun."""
        found = self.find(cookie)
        key = key_of(cookie)
        if found is not None or key is None:
            return found
        await self._refresh_for_unknown(key)
        return self.find(cookie)

    async def use(self, record: Record) -> None:
        """Record a use, once per `USED_S`. A failed write shortens the session and nothing else."""
        now = self._clock.now()
        if (now - record.used).total_seconds() < min(USED_S, self.lifetimes.idle_s / 4):
            return
        secret = self._store.get(record.key)
        if not isinstance(secret, Secret) or secret.metadata.uid != record.uid:
            return
        try:
            await self._writer.replace(used_at(secret, now))
        except (Conflict, Missing, Unavailable):
            return

    async def end(self, record: Record) -> None:
        """End a session; nothing happens if it has ended."""
        try:
            await self._writer.delete(record.key, uid=record.uid)
        except (Missing, Conflict):
            return

    def _caller_of(self, record: Record) -> Caller | None:
        """Return the caller with its present rights; None if its token is gone or another one."""
        identity = record.identity
        if identity.method == "owner":
            return OWNER_CALLER
        if identity.method == "oidc":
            return Caller(identity.name, identity.roles, record.expires, is_federated=True)
        if self._digest_of_token(identity.name) != identity.proof:
            return None
        caller = self._callers.named(identity.name)
        ended = caller.expires is not None and caller.expires <= self._clock.now()
        return None if ended else caller

    def _digest_of_token(self, name: str) -> str | None:
        secret = self._store.get(Key("Secret", TOKENS_NAMESPACE, name))
        if not isinstance(secret, Secret) or secret.type != TOKEN_TYPE or secret.faults():
            return None
        return secret.text(DIGEST)

    async def _create(self, type_: str, identity: Identity, lifetime_s: float) -> Opened:
        now = self._clock.now()
        expires = now + timedelta(seconds=lifetime_s)
        if identity.expires is not None:
            expires = min(expires, identity.expires)
        await self._sweep(type_, identity, now)
        cookie = f"{secrets.token_hex(ID_LENGTH // 2)}.{new_token()}"
        await self._writer.create(secret_of(type_, cookie, identity, now, expires))
        return Opened(cookie, expires)

    async def _sweep(self, type_: str, identity: Identity, now: datetime) -> None:
        """Delete what has expired, and the oldest of a person with too many."""
        records = [
            record
            for secret in self._store.list("Secret", TOKENS_NAMESPACE)
            for known in (SESSION_TYPE, CODE_TYPE)
            if (record := record_of(secret, known)) is not None
        ]
        idle_s = timedelta(seconds=self.lifetimes.idle_s + USED_S)
        gone = [one for one in records if one.expires <= now or one.used + idle_s <= now]
        own = [
            one
            for one in records
            if one not in gone
            and (one.identity.method, one.identity.name) == (identity.method, identity.name)
            and record_of(self._store.get(one.key), type_) is not None
        ]
        own.sort(key=lambda one: one.used)
        for record in (*gone, *_excess(own)):
            await self.end(record)

    async def _refresh_for_unknown(self, key: Key) -> None:
        """Read what other processes wrote if this one does not know a key."""
        now_s = self._clock.monotonic()
        self._refreshes = [one for one in self._refreshes if now_s - one < 1.0]
        if self._store.get(key) is None and len(self._refreshes) < REFRESHES_PER_S:
            self._refreshes.append(now_s)
            await self._store.refresh()


def _excess(records: list[Record]) -> Iterable[Record]:
    """Return the first of sorted records, so that there is room for one more."""
    return records[: max(len(records) - RECORDS_OF_ONE_MAX + 1, 0)]
