"""Passwords of users that are in Secrets: what a login is checked against follows the Secret.

Verifiers of such a user are never stored: they are derived from what the Secret has, and kept in
memory while that stays.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from itertools import islice

from enmasse.auth.passwords import derive, prepared
from enmasse.resources import Key, MessagingUser, Secret, Verifier
from enmasse.store import Store

AT_ONCE = 32
"""Passwords that one pass derives, each some 10 ms of a core: others wait for the next pass."""


class SecretPasswords:
    """The users whose password is in a Secret, and what was derived for each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._users: dict[Key, MessagingUser] = {}
        self._by_secret: defaultdict[Key, set[Key]] = defaultdict(set)
        self._derived: dict[Key, tuple[str, tuple[Verifier, ...]]] = {}
        """The value that a user's verifiers are of, and these."""

        self._owed: dict[Key, None] = {}
        """Users whose Secret is to be looked at, the longest waiting first."""

    @property
    def owes(self) -> bool:
        """Whether some have to wait for another pass."""
        return bool(self._owed)

    def put(self, key: Key, user: MessagingUser | None) -> MessagingUser | None:
        """Take in a user as declared now, None if gone; return the user with what was derived
        before, which goes on until the Secret has been looked at."""
        before = self._users.pop(key, None)
        if before is not None:
            self._by_secret[_secret(before)].discard(key)
            if not self._by_secret[_secret(before)]:
                del self._by_secret[_secret(before)]
        self._owed.pop(key, None)
        if user is None or user.spec.authentication.password_secret is None:
            self._derived.pop(key, None)
            return user
        if before is None or before.metadata.uid != user.metadata.uid:
            self._derived.pop(key, None)
        self._users[key] = user
        self._by_secret[_secret(user)].add(key)
        self._owed[key] = None
        return self._with(key, user)

    async def derive(self, changed: Iterable[Key]) -> list[MessagingUser]:
        """Return the users whose verifiers are others than before, with them; `changed` may have
        Secrets that are not as they were. Of more than AT_ONCE some wait."""
        for secret in changed:
            self._owed |= dict.fromkeys(self._by_secret.get(secret, ()))
        some = list(islice(self._owed, AT_ONCE))
        differing = await asyncio.gather(*(self._renew(key, self._users[key]) for key in some))
        for key in some:
            del self._owed[key]
        return [
            self._with(key, self._users[key])
            for key, differs in zip(some, differing, strict=True)
            if differs
        ]

    async def _renew(self, key: Key, user: MessagingUser) -> bool:
        """Derive anew what a user's Secret has now; whether that is something else."""
        wanted = user.spec.authentication.password_secret
        found = self._store.get(_secret(user))
        value = found.data.get(wanted.key) if isinstance(found, Secret) and wanted else None
        before = self._derived.get(key)
        if (before[0] if before else None) == value:
            return False
        try:
            password = prepared(value) if value is not None else None
        except ValueError:
            password = None  # the condition of the user says that it cannot be one
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
