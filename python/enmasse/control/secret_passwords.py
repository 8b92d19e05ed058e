"""Passwords in Secrets: verifiers follow the content of the Secret.

Verifiers of such users are never stored: they are derived from the Secret and cached in memory
while it is unchanged.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, islice, zip_longest

from enmasse.auth.passwords import derive, prepared
from enmasse.resources import Key, MessagingUser, Secret, Verifier
from enmasse.store import Store

AT_ONCE = 32
"""Maximum passwords derived per pass, about 10 ms of CPU each. Namespaces take turns, so that many
users in one do not delay others.
"""


class SecretPasswords:
    """Users with passwords in Secrets, and their verifiers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._users: dict[Key, MessagingUser] = {}
        self._by_secret: defaultdict[Key, set[Key]] = defaultdict(set)
        self._derived: dict[Key, tuple[str, tuple[Verifier, ...]]] = {}
        """The Secret value of the verifiers, and the verifiers."""

        self._pending: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        """Users with pending checks by namespace, longest waiting first."""

    @property
    def waiting(self) -> set[Key]:
        """Users whose password is determined by another pass."""
        return set(chain.from_iterable(self._pending.values()))

    def put(self, key: Key, user: MessagingUser | None) -> MessagingUser | None:
        """Apply the present state of a user, None if deleted; return the user with its cached
        verifiers, which stay in use until the Secret is checked.
        """
        before = self._users.pop(key, None)
        if before is not None:
            self._by_secret[_secret(before)].discard(key)
            if not self._by_secret[_secret(before)]:
                del self._by_secret[_secret(before)]
        self._done(key)
        if user is None or user.spec.authentication.password_secret is None:
            self._derived.pop(key, None)
            return user
        if before is None or before.metadata.uid != user.metadata.uid:
            self._derived.pop(key, None)
        self._users[key] = user
        self._by_secret[_secret(user)].add(key)
        self._pending[key.namespace][key] = None
        return self._with(key, user)

    async def derive(self, changed: Iterable[Key]) -> list[MessagingUser]:
        """Return users with changed verifiers; `changed` are Secrets that may have changed. Beyond
        AT_ONCE users wait for the next pass.
        """
        for secret in changed:
            if users := self._by_secret.get(secret):
                self._pending[secret.namespace] |= dict.fromkeys(users)
        rounds = zip_longest(*self._pending.values())
        some = list(islice(filter(None, chain.from_iterable(rounds)), AT_ONCE))
        differing = await asyncio.gather(*(self._renew(key, self._users[key]) for key in some))
        for key in some:
            self._done(key)
        return [
            self._with(key, self._users[key])
            for key, differs in zip(some, differing, strict=True)
            if differs
        ]

    def _done(self, key: Key) -> None:
        """Mark a user as done; the others of its namespace go to the end of the queue."""
        pending = self._pending.pop(key.namespace, {})
        pending.pop(key, None)
        if pending:
            self._pending[key.namespace] = pending

    async def _renew(self, key: Key, user: MessagingUser) -> bool:
        """Derive verifiers from the present Secret of a user; return whether they changed."""
        wanted = user.spec.authentication.password_secret
        found = self._store.get(_secret(user))
        value = found.data.get(wanted.key) if isinstance(found, Secret) and wanted else None
        before = self._derived.get(key)
        if (before[0] if before else None) == value:
            return False
        try:
            password = prepared(value) if value is not None else None
        except ValueError:
            password = None  # the condition of the user reports the malformed password
        if value is None or password is None:
            return self._derived.pop(key, None) is not None
        self._derived[key] = value, await asyncio.to_thread(derive, password)
        return True

    def _with(self, key: Key, user: MessagingUser) -> MessagingUser:
        derived = self._derived.get(key)
        return user.with_verifiers(derived[1] if derived else ())


def _secret(user: MessagingUser) -> Key:
    wanted = user.spec.authentication.password_secret
    return Key("Secret", user.metadata.namespace, wanted.name if wanted else "")
