"""The resources of a store by key, and in order.

Lists are asked for far more often than resources change. So each group, the resources of a kind in
a namespace, keeps its list until one of them changes.
"""

from collections.abc import Iterable, Iterator, Sequence

from enmasse.resources import Key, Resource

_Group = tuple[str, str]
"""A kind and a namespace."""


class Content:
    """The resources of a store."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        """Hold `resources`."""
        self._groups: dict[_Group, dict[str, Resource]] = {}
        """By name. No group is empty."""

        self._lists: dict[_Group, Sequence[Resource]] = {}
        """Lists of groups that have not changed since."""

        for resource in resources:
            self.put(resource)

    def get(self, key: Key) -> Resource | None:
        """Return the resource with that key, or None."""
        group = self._groups.get(key[:2])
        return group.get(key.name) if group is not None else None

    def put(self, resource: Resource) -> None:
        """Add a resource, or replace the one with its key."""
        key = resource.key
        self._groups.setdefault(key[:2], {})[key.name] = resource
        self._lists.pop(key[:2], None)

    def remove(self, key: Key) -> None:
        """Remove the resource with that key, which must be there."""
        group = self._groups[key[:2]]
        del group[key.name]
        self._lists.pop(key[:2], None)
        if not group:
            del self._groups[key[:2]]

    def __iter__(self) -> Iterator[Resource]:
        """Every resource, in no order."""
        for group in self._groups.values():
            yield from group.values()

    def listed(self, kind: str | None = None, namespace: str | None = None) -> Sequence[Resource]:
        """Return all resources, or those of a kind or namespace, ordered by key.

        Callers share the list and must not change it. It does not follow later changes.
        """
        if kind is not None and namespace is not None:
            return self._list((kind, namespace))
        chosen = sorted(
            group
            for group in self._groups
            if kind in (None, group[0]) and namespace in (None, group[1])
        )
        if len(chosen) == 1:
            return self._list(chosen[0])
        return [one for group in chosen for one in self._list(group)]

    def _list(self, group: _Group) -> Sequence[Resource]:
        if (found := self._lists.get(group)) is not None:
            return found
        if group not in self._groups:
            return []
        # Kept in order, so that sorting after few changes costs one comparison a resource.
        by_name = self._groups[group]
        by_name = self._groups[group] = {name: by_name[name] for name in sorted(by_name)}
        made = self._lists[group] = list(by_name.values())
        return made
