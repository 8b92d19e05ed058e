"""Assigns names that several address spaces declare. Pure.

Full names, `NAME.NAMESPACE`, are unique. A short name, `NAME`, and the host names of endpoints
belong to the first space that claims them, so that a tenant cannot break another tenant's logins by
declaring a space with the same short name. The first space is the one created first, then the one
with the smaller uid; both survive restarts, backups and a change of the store.
"""

from collections.abc import Collection, Iterable

from enmasse.plan.declared import (
    PLATFORM,
    Declarations,
    Home,
    full_name,
    home_of_key,
    host_name,
    served_names,
    short_name,
)
from enmasse.resources import AddressSpace, Key, Resource

LOCALHOST = "localhost"


def names_of(space: AddressSpace) -> tuple[str, ...]:
    """Return the names that a space claims: its short name, the host names of its endpoints, and,
    last, its full name.
    """
    full = full_name(space)
    return (space.metadata.name, *(one for one in space.spec.hosts if one != full), full)


def platform_names(hosts: Iterable[str]) -> frozenset[str]:
    """Return the names of the platform itself, which no space can have."""
    return frozenset({LOCALHOST, *(host.lower() for host in hosts)})


def spaces_with_changed_names(
    declared: Declarations, before: Resource | None, now: Resource | None
) -> set[Home]:
    """Return the spaces whose names may have changed with a change of one space."""
    names = {*served_names(before), *served_names(now)}
    return {home_of_key(key) for name in names for key in declared.owners(name)}


def lost_names(
    declared: Declarations, space: AddressSpace, platform: Collection[str]
) -> frozenset[str]:
    """Return the names that a space claims but another owner has, in lower case."""
    *others, _ = names_of(space)
    names = {name.lower() for name in others}
    return frozenset(one for one in names if claimants(declared, one, platform)[0] != space.key)


def rival(
    declared: Declarations, space: AddressSpace, name: str, platform: Collection[str]
) -> Key | None:
    """Return another claimant of a name of a space: PLATFORM, or the first space; None if there is
    none.

    A request may not claim such a name: an older space would take it from the one that has it.
    """
    others = (key for key in claimants(declared, name.lower(), platform) if key != space.key)
    return next(others, None)


def claimants(declared: Declarations, name: str, platform: Collection[str]) -> list[Key]:
    """Return all claimants of a name in lower case, its owner first. The key of the platform is
    PLATFORM.
    """
    keys = {*declared.owners(short_name(name)), *declared.owners(host_name(name))}
    spaces = [one for key in keys if isinstance(one := declared.get(key), AddressSpace)]
    # A full name always belongs to its space, even if another one claimed it first.
    spaces.sort(key=lambda one: (full_name(one).lower() != name, _since(one)))
    return [*([PLATFORM] if name in platform else []), *(one.key for one in spaces)]


def _since(space: AddressSpace) -> tuple[str, str, Key]:
    metadata = space.metadata
    return metadata.creation_timestamp or "", metadata.uid or "", space.key
