"""Field ownership and server-side apply. Pure: documents in and out.

A field is a path of names. A list is one field. Write-only fields, such as a password, are never
recorded. `metadata.managedFields` has an entry per manager and operation, in the form that
Kubernetes calls FieldsV1.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from enmasse.base.errors import Code, Conflict, Fault, Invalid

UPDATE_MANAGERS_MAX = 10
"""Maximum entries of managers that update; beyond it the two oldest are merged."""

SHARED_MAX = 256
"""Maximum cached entry lists, which are shared between resources."""

SHARED_PATHS_MAX = 1_000
"""Maximum paths of a cached list; larger ones are rarely shared, and would fill memory with client
input.
"""

CONFLICTS_NAMED_MAX = 100
"""Maximum fields listed in a conflict."""

ANCIENT = "ancient-changes"
APPLY, UPDATE = "Apply", "Update"

Path = tuple[str, ...]
Paths = frozenset[Path]
Document = dict[str, Any]
_ABSENT = object()

_NOT_MANAGED = {
    *("apiVersion", "kind", "status"),
    *(
        f"metadata.{name}"
        for name in (
            *("name", "namespace", "generateName", "uid", "resourceVersion", "generation"),
            *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
            *("managedFields", "selfLink"),
        )
    ),
}


class Entry(NamedTuple):
    """The fields that a manager owns through one operation."""

    manager: str
    operation: str
    api_version: str
    time: str
    paths: Paths

    @property
    def identity(self) -> tuple[str, str]:
        """The identity of an entry."""
        return self.manager, self.operation


class Writer(NamedTuple):
    """The writer and the time of a write."""

    manager: str
    api_version: str
    time: str
    unseen: Collection[str] = ()
    """Dotted paths of fields that are never recorded."""


def entries_of(managed_fields: object) -> list[Entry]:
    """Return the entries of `metadata.managedFields`.

    Raises: Invalid if they are malformed.
    """
    if not isinstance(managed_fields, list | tuple):
        raise _fault("metadata.managedFields", "must be a list")
    entries = []
    for one in managed_fields:
        if not isinstance(one, dict) or not isinstance(one.get("fieldsV1", {}), dict):
            raise _fault("metadata.managedFields", "has an invalid entry")
        if one.get("subresource") or not one:
            continue
        entry = Entry(
            manager=str(one.get("manager", "")),
            operation=str(one.get("operation", "")),
            api_version=str(one.get("apiVersion", "")),
            time=str(one.get("time", "")),
            paths=frozenset(_decoded(one.get("fieldsV1", {}))),
        )
        if entry.operation not in (APPLY, UPDATE):
            raise _fault("metadata.managedFields", "has an operation other than Apply and Update")
        entries.append(entry)
    return entries


def managed_fields(entries: list[Entry]) -> tuple[Document, ...]:
    """Return entries in the form of `metadata.managedFields`. Do not modify the result, which
    resources share.
    """
    if sum(len(one.paths) for one in entries) > SHARED_PATHS_MAX:
        return _written(entries)
    return _shared(tuple(entries))


@lru_cache(maxsize=SHARED_MAX)
def _shared(entries: tuple[Entry, ...]) -> tuple[Document, ...]:
    return _written(entries)


def _written(entries: Sequence[Entry]) -> tuple[Document, ...]:
    return tuple(
        {
            "manager": one.manager,
            "operation": one.operation,
            "apiVersion": one.api_version,
            "time": one.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _encoded(one.paths),
        }
        for one in entries
    )


def updated(
    entries: list[Entry], before: Document | None, after: Document, writer: Writer
) -> list[Entry]:
    """Return the entries after an update: the writer owns what it changes."""
    was = _leaves(before) if before else {}
    unseen = _unseen(writer)
    now = {path: one for path, one in _leaves(after).items() if not unseen.touches(path)}
    changed = frozenset(path for path, one in now.items() if was.get(path, _ABSENT) != one)
    kept = [
        one._replace(paths=frozenset((one.paths - changed) & now.keys()))
        if one.identity != (writer.manager, UPDATE)
        else one._replace(paths=frozenset(one.paths & now.keys()))
        for one in entries
    ]
    return _bounded(_with(kept, writer, UPDATE, changed, add=True))


def applied(
    entries: list[Entry],
    before: Document | None,
    config: Document,
    writer: Writer,
    read: Callable[[Document], Document],
    *,
    force: bool,
) -> tuple[Document, list[Entry]]:
    """Return the result of applying a configuration to `before`, and the new entries.

    `read` returns a document as it will be stored. Fields that the manager applied before and omits
    now are removed, unless another manager owns them too.

    Raises: Conflict naming each field that would change and belongs to another manager; with
        `force` the writer takes them over.
    """
    given = _leaves(config)
    unseen = _unseen(writer)
    wanted = frozenset(path for path in given if not unseen.touches(path))
    others = [one for one in entries if one.identity != (writer.manager, APPLY)]
    mine = next((one.paths for one in entries if one not in others), frozenset())
    merged = copy.deepcopy(before or config)
    still_owned = _Reach(wanted.union(*(one.paths for one in others)))
    for path in mine - wanted:
        if not still_owned.touches(path):
            _remove(merged, path)
    for path, value in given.items():
        _set(merged, path, value)
    if before is not None:
        was, now = (_parts(_leaves(one), wanted) for one in (before, read(merged)))
        changing = {path for path in wanted if was.get(path) != now.get(path)}
        others = _without(others, changing, force=force)
    return merged, _with(others, writer, APPLY, wanted, known=entries)


def _without(entries: list[Entry], changing: set[Path], *, force: bool) -> list[Entry]:
    reaches = [(one.manager, _Reach(one.paths)) for one in entries]
    # All conflicts are reported at once, so that one more attempt is enough.
    contested = [
        (manager, path)
        for manager, reach in reaches
        for path in sorted(changing)
        if reach.touches(path)
    ]
    if contested and not force:
        faults = [
            Fault(f".{'.'.join(path)}", f'conflict with "{manager}"')
            for manager, path in contested[:CONFLICTS_NAMED_MAX]
        ]
        count = f"{len(contested)} conflict" + ("s" if len(contested) > 1 else "")
        conflicts = "; ".join(f"{fault.message}: {fault.field}" for fault in faults)
        raise Conflict(
            Code.FIELD_OWNED,
            f"Apply failed with {count}: {conflicts}; remove the fields, or force the"
            " apply to take ownership",
            faults=faults,
        )
    changing_paths = _Reach(changing)
    return [
        one._replace(
            paths=frozenset(path for path in one.paths if not changing_paths.touches(path))
        )
        for one in entries
    ]


def _with(
    entries: list[Entry],
    writer: Writer,
    operation: str,
    paths: Paths,
    *,
    add: bool = False,
    known: list[Entry] | None = None,
) -> list[Entry]:
    """Return entries with the writer's own; its time changes only with its fields."""
    identity = (writer.manager, operation)
    own = next((one for one in known or entries if one.identity == identity), None)
    if own is not None and add:
        paths |= own.paths
    fresh = Entry(writer.manager, operation, writer.api_version, writer.time, paths)
    if own is not None and own.paths == paths:
        fresh = own
    rest = [one for one in entries if one.identity != identity and one.paths]
    if not paths:
        return rest
    # The entry keeps its position, so a write without changes does not reorder the list.
    at = len(rest)
    if own is not None:
        order = [one.identity for one in known or entries]
        before = set(order[: order.index(identity)])
        at = sum(one.identity in before for one in rest)
    return [*rest[:at], fresh, *rest[at:]]


def _bounded(entries: list[Entry]) -> list[Entry]:
    updates = sorted((one for one in entries if one.operation == UPDATE), key=lambda one: one.time)
    while len(updates) > UPDATE_MANAGERS_MAX:
        first, second = updates[:2]
        merged = second._replace(manager=ANCIENT, paths=first.paths | second.paths)
        updates = [merged, *updates[2:]]
        entries = [merged, *(one for one in entries if one not in (first, second))]
    return entries


def _leaves(document: Mapping[str, Any], path: Path = ()) -> dict[Path, Any]:
    """Return the owned fields of a document with their values."""
    found: dict[Path, Any] = {}
    for name, value in document.items():
        below = (*path, name)
        if ".".join(below) in _NOT_MANAGED and len(below) < 3:
            continue
        if isinstance(value, dict) and (value or len(below) == 1):
            found |= _leaves(value, below)
        elif value is not None:
            found[below] = value
    return found


def _parts(leaves: Mapping[Path, Any], paths: Paths) -> dict[Path, dict[Path, Any]]:
    """Return, for each of `paths`, the existing leaves at or below it."""
    found: defaultdict[Path, dict[Path, Any]] = defaultdict(dict)
    for leaf, value in leaves.items():
        for path in _down_to(leaf):
            if path in paths:
                found[path][leaf] = value
    return found


class _Reach:
    """A set of paths that matches everything above or below its members.

    A lookup takes as many steps as the path has names, regardless of the size of the set, which a
    tenant can make large.
    """

    def __init__(self, paths: Collection[Path]) -> None:
        self._paths = frozenset(paths)
        self._down_to_them = {above for path in paths for above in _down_to(path)}

    def touches(self, path: Path) -> bool:
        """Whether a path is, or is above or below, a member."""
        return path in self._down_to_them or any(one in self._paths for one in _down_to(path))


def _down_to(path: Path) -> Iterator[Path]:
    """Yield the prefixes of a path, itself included."""
    return (path[:length] for length in range(1, len(path) + 1))


def _unseen(writer: Writer) -> _Reach:
    return _Reach([tuple(name.split(".")) for name in writer.unseen])


def _set(document: Document, path: Path, value: Any) -> None:
    at = document
    for name in path[:-1]:
        if not isinstance(at.get(name), dict):
            at[name] = {}
        at = at[name]
    at[path[-1]] = copy.deepcopy(value)


def _remove(document: Document, path: Path) -> None:
    """Remove a field, and the objects that become empty."""
    above: list[Document] = [document]
    for name in path[:-1]:
        below = above[-1].get(name)
        if not isinstance(below, dict):
            return
        above.append(below)
    above[-1].pop(path[-1], None)
    for depth in range(len(path) - 1, 1, -1):
        if not above[depth]:
            del above[depth - 1][path[depth - 1]]


def _encoded(paths: Paths) -> Document:
    encoded: Document = {}
    for path in sorted(paths):
        at = encoded
        for name in path:
            at = at.setdefault(f"f:{name}", {})
    return encoded


def _decoded(fields: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    named = {
        name.removeprefix("f:"): below
        for name, below in fields.items()
        if name.startswith("f:") and isinstance(below, dict)
    }
    if path and not named:
        yield path
    for name, below in named.items():
        yield from _decoded(below, (*path, name))


def _fault(field: str, problem: str) -> Invalid:
    fault = Fault(field, problem)
    return Invalid(Code.FIELD_INVALID, str(fault), faults=[fault])
