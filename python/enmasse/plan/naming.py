"""Assigns names that several address spaces claim. Pure.

Full names, `NAME.NAMESPACE`, are unique. A short name, `NAME`, and the host names of endpoints
belong to the first space that claims them, so that a tenant cannot break another tenant's logins by
declaring a space with the same short name. The first space is the one created first, then the one
with the smaller uid; both survive restarts, backups and a change of the store.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from enmasse.resources import AddressSpace

LOCALHOST = "localhost"

_Home = tuple[str, str]


def names_of(space: AddressSpace) -> tuple[str, ...]:
    """Return the names that a space claims: its short name, the host names of its endpoints, and,
    last, its full name.
    """
    full = f"{space.metadata.name}.{space.metadata.namespace}"
    return (space.metadata.name, *(one for one in space.spec.hosts if one != full), full)


@dataclass(frozen=True, slots=True)
class _Claim:
    names: tuple[str, ...]
    since: tuple[str, str]
    """creationTimestamp and uid"""


class Naming:
    """The claimed names, kept so that the cost of a change is proportional to it."""

    def __init__(self, platform: Collection[str] = ()) -> None:
        """`platform`: names of the platform itself, which no space can have."""
        self._platform = {LOCALHOST, *(name.lower() for name in platform)}
        self._claims: dict[_Home, _Claim] = {}
        self._claimants: defaultdict[str, set[_Home]] = defaultdict(set)

    def put(self, home: _Home, space: AddressSpace | None) -> set[_Home]:
        """Apply the present state of a space; return the homes of all spaces whose names may
        change.
        """
        before = self._claims.pop(home, None)
        touched = set(before.names) if before else set()
        for name in touched:
            self._claimants[name].discard(home)
        if space is not None:
            names = tuple(name.lower() for name in names_of(space))
            metadata = space.metadata
            since = (metadata.creation_timestamp or "", metadata.uid or "")
            self._claims[home] = _Claim(names, since)
            for name in names:
                self._claimants[name].add(home)
            touched.update(names)
        homes = {home} if space is not None else set()
        for name in touched:
            homes |= self._claimants[name]
            if not self._claimants[name]:
                del self._claimants[name]
        return homes

    def lost(self, home: _Home) -> frozenset[str]:
        """Return the names that a space claims but another owner has, in lower case."""
        claim = self._claims[home]
        full = claim.names[-1]
        return frozenset(name for name in claim.names if name != full and self._owner(name) != home)

    def _owner(self, name: str) -> _Home | None:
        """Return the space that has a name; None: it is the platform's."""
        if name in self._platform:
            return None
        # A full name always belongs to its space, even if another one claimed it first.
        return min(
            self._claimants[name],
            key=lambda home: (
                self._claims[home].names[-1] != name,
                *self._claims[home].since,
                home,
            ),
        )
