"""Kinds by any of their names: kind, plural, short name, category."""

import difflib
from typing import Protocol

from enmasse.base.errors import Code, Invalid
from enmasse.base.kinds import KINDS, Kind

_WORDS = {
    "node": "MessagingNode",
    "nodes": "MessagingNode",
    "space": "AddressSpace",
    "spaces": "AddressSpace",
    "user": "MessagingUser",
    "users": "MessagingUser",
}


class Named(Protocol):
    """A kind: a `Kind`, or the model of its resources."""

    @property
    def plural(self) -> str:
        """The plural in HTTP paths."""

    @property
    def namespaced(self) -> bool:
        """Whether it is namespaced."""

    @property
    def unique(self) -> bool:
        """Whether a name is unique across all namespaces."""

    @property
    def api_versions(self) -> tuple[str, ...]:
        """API versions, the preferred one first."""


def _names() -> dict[str, Kind]:
    names = {word: KINDS[kind] for word, kind in _WORDS.items()}
    for kind in KINDS.values():
        for name in (kind.name.lower(), kind.plural, *kind.short_names):
            names[name] = kind
    return names


NAMES = _names()
PLURALS = tuple(kind.plural for kind in KINDS.values())


def find(text: str) -> Kind | None:
    """Return the kind of a name, also with its group: `addresses.enmasse.io`."""
    word, _, group = text.lower().partition(".")
    kind = NAMES.get(word)
    if kind is None or (group and all(group != group_of(one) for one in kind.api_versions)):
        return None
    return kind


def named(text: str) -> Kind:
    """Return the kind of a name.

    Raises: Invalid if unknown; the message suggests the nearest name.
    """
    if (kind := find(text)) is None:
        close = difflib.get_close_matches(text.lower(), NAMES, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(PLURALS))}"
        message = f"the server doesn't have a resource type {text!r}; {hint}"
        raise Invalid(Code.KIND_UNKNOWN, message)
    return kind


def group_of(api_version: str) -> str:
    """Return the group of an API version; empty for the core kinds."""
    return api_version.rpartition("/")[0]


def plural_of(kind: Named) -> str:
    """Return a kind as in server errors: `addresses.enmasse.io`."""
    group = group_of(kind.api_versions[0])
    return f"{kind.plural}{f'.{group}' if group else ''}"


def qualified(kind: Kind, name: str) -> str:
    """Return a resource as `-o name` prints it: `address.enmasse.io/default.orders`."""
    group = group_of(kind.api_versions[0])
    return f"{kind.name.lower()}{f'.{group}' if group else ''}/{name}"
