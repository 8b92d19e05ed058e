"""Passwords of users that are in Secrets: what a login is checked against follows the Secret.

Verifiers of such a user are never stored: they are derived from what the Secret has, and kept in
memory while that stays.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, islice, zip_longest

from enmasse.auth.passwords import derive, prepared
from enmasse.resources import Key, MessagingUser, Secret, Verifier
from enmasse.store import Store

AT_ONCE = 32
"""Passwords that one pass derives, each some 10 ms of a core: others wait for the next pass.
Namespaces take turns, so that one with many users holds up no other."""


class SecretPasswords:
    """The users whose password is in a Secret, and what was derived for each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._users: dict[Key, MessagingUser] = {}
        self._by_secret: defaultdict[Key, set[Key]] = defaultdict(set)
        self._derived: dict[Key, tuple[str, tuple[Verifier, ...]]] = {}
        """The value that a user's verifiers are of, and these."""

        self._owed: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        """Users whose Secret is to be looked at by namespace, the longest waiting first."""

    @property
    def waiting(self) -> set[Key]:
        """Users of whom another pass says what their password is."""
        return set(chain.from_iterable(self._owed.values()))

    def put(self, key: Key, user: MessagingUser | None) -> MessagingUser | None:
        """Take in a user as declared now, None if gone; return the user with what was derived
        before, which goes on until the Secret has been looked at."""
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
        self._owed[key.namespace][key] = None
        return self._with(key, user)

    async def derive(self, changed: Iterable[Key]) -> list[MessagingUser]:
        """Return the users whose verifiers are others than before, with them; `changed` may have
        Secrets that are not as they were. Of more than AT_ONCE some wait."""
        for secret in changed:
            if users := self._by_secret.get(secret):
                self._owed[secret.namespace] |= dict.fromkeys(users)
        rounds = zip_longest(*self._owed.values())
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
        """Note that nothing is owed to a user; the others of its namespace come after those of all
        others."""
        owed = self._owed.pop(key.namespace, {})
        owed.pop(key, None)
        if owed:
            self._owed[key.namespace] = owed

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
