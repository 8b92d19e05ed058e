"""The declared state as a request would leave it. Pure.

An overlay is its base, minus the resources that the request changes or deletes (`hidden`), plus
their new forms (`own`). It answers the same questions as its base, which may be an overlay too: a
batch of requests is one overlay, and each request of it another one on top.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from enmasse.plan.catalogue import Catalogue
from enmasse.plan.declared import (
    CATALOGUED_KINDS,
    Declarations,
    DeclaredState,
    Group,
    Held,
    Home,
    Name,
)
from enmasse.plan.members import Choice
from enmasse.resources import Declared, Key, Resource

_NOTHING = DeclaredState()
"""Hidden by an overlay that changes no resource of its base."""


class Overlay:
    """A declared state with changes applied on top."""

    def __init__(self, base: Declarations, changed: Mapping[Key, Resource | None]) -> None:
        self.base = base
        """The state before the changes."""

        self._changed: set[Key] = set()
        self._changes_catalogue = False
        # Most requests create one resource, which hides nothing.
        self._hidden = _NOTHING
        self._own = DeclaredState()
        self._catalogue: Catalogue | None = None
        for key, resource in changed.items():
            self.put(key, resource)

    def put(self, key: Key, resource: Resource | None) -> None:
        """Apply one more change; None means deleted."""
        if key not in self._changed:
            self._changed.add(key)
            if (before := self.base.get(key)) is not None:
                self._hide(key, before)
        self._own.put(key, resource)
        if key.kind in CATALOGUED_KINDS:
            self._changes_catalogue = True
            self._catalogue = None

    def get(self, key: Key) -> Resource | None:
        """Return the resource of a key."""
        return self._own.get(key) if key in self._changed else self.base.get(key)

    def owners(self, name: Name) -> tuple[Key, ...]:
        """Return the resources that declare a unique name."""
        return (*self._unchanged(self.base.owners(name)), *self._own.owners(name))

    def users(self, home: Home) -> int:
        """Return the number of users of an address space."""
        return self.base.users(home) - self._hidden.users(home) + self._own.users(home)

    def spaces(self) -> list[Key]:
        """Return all address spaces."""
        return [*self._unchanged(self.base.spaces()), *self._own.spaces()]

    def using(self, kind: str, name: str) -> list[Key]:
        """Return the resources that chose a plan or a service."""
        return [*self._unchanged(self.base.using(kind, name)), *self._own.using(kind, name)]

    def choices(self, home: Home) -> Counter[Choice]:
        """Return the number of addresses of a space by type and plan."""
        counted = self.base.choices(home)
        own, hidden = self._own.choices(home), self._hidden.choices(home)
        if own or hidden:
            # Not by the operators of Counter: they cost a tenth of a request.
            counted = Counter(counted)
            for choice, count in own.items():
                counted[choice] += count
            for choice, count in hidden.items():
                counted[choice] -= count
        return counted

    def held(self, group: Group) -> Held:
        """Return number and size of the resources of a kind in a namespace."""
        kept = self.base.held(group).plus(self._hidden.held(group), -1)
        return kept.plus(self._own.held(group))

    def chosen_from(self) -> dict[Key, Declared]:
        """Return the resources of the catalogue."""
        base = self.base.chosen_from()
        kept = {key: one for key, one in base.items() if key not in self._changed}
        return {**kept, **self._own.chosen_from()}

    @property
    def catalogue(self) -> Catalogue:
        """The plans and services."""
        if not self._changes_catalogue:
            return self.base.catalogue
        if self._catalogue is None:
            self._catalogue = Catalogue(self.chosen_from().values())
        return self._catalogue

    def _hide(self, key: Key, before: Resource) -> None:
        if self._hidden is _NOTHING:
            self._hidden = DeclaredState()
        self._hidden.put(key, before)

    def _unchanged(self, keys: Iterable[Key]) -> list[Key]:
        return [key for key in keys if key not in self._changed]
