"""Who has set which field, and server-side apply, which goes by that. Pure: documents in and out.

A field is a path of names. Lists are one field each. What a manager may not be seen to know (a
password, say) is set and never written down. `metadata.managedFields` has all of it, an entry for
each manager and way of writing, in the form that Kubernetes calls FieldsV1.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from enmasse.base.errors import Code, Conflict, Fault, Invalid

UPDATE_MANAGERS_MAX = 10
"""Entries of managers that do not apply; of more the two oldest become one."""

SHARED_MAX = 256
"""Lists of entries that are kept to be shared."""

SHARED_PATHS_MAX = 1_000
"""Paths of a list that is kept; larger ones are never of many resources, and would fill the memory
with what anybody has tried to write."""

CONFLICTS_NAMED_MAX = 100
"""Fields that a conflict names."""

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
    """The fields that a manager has set in one way of writing."""

    manager: str
    operation: str
    api_version: str
    time: str
    paths: Paths

    @property
    def identity(self) -> tuple[str, str]:
        """What there is one entry of."""
        return self.manager, self.operation


class Writer(NamedTuple):
    """Who writes, and when."""

    manager: str
    api_version: str
    time: str
    unseen: Collection[str] = ()
    """Fields, written with dots, that are never written down."""


def entries_of(managed_fields: object) -> list[Entry]:
    """Return the entries of `metadata.managedFields`.

    Raises: Invalid if they are none.
    """
    if not isinstance(managed_fields, list | tuple):
        raise _fault("metadata.managedFields", "must be a list")
    entries = []
    for one in managed_fields:
        if not isinstance(one, dict) or not isinstance(one.get("fieldsV1", {}), dict):
            raise _fault("metadata.managedFields", "has an entry that is none")
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
            raise _fault("metadata.managedFields", "has an operation beside Apply and Update")
        entries.append(entry)
    return entries


def managed_fields(entries: list[Entry]) -> tuple[Document, ...]:
    """Return entries as `metadata.managedFields` has them: nobody may change what is returned,
    since resources that were written alike share it."""
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
    """Return the entries after a write that is no apply: what it changes is the writer's alone."""
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
    """Return the document that an applied configuration makes of `before`, and the entries then.

    `read` returns a document as it will be stored. Fields that the manager applied before and
    leaves out now go, unless somebody else has set them too.

    Raises: Conflict naming each field that would change and that another manager has set; with
        `force` those become the writer's.
    """
    given = _leaves(config)
    unseen = _unseen(writer)
    wanted = frozenset(path for path in given if not unseen.touches(path))
    others = [one for one in entries if one.identity != (writer.manager, APPLY)]
    mine = next((one.paths for one in entries if one not in others), frozenset())
    merged = copy.deepcopy(before or config)
    set_still = _Reach(wanted.union(*(one.paths for one in others)))
    for path in mine - wanted:
        if not set_still.touches(path):
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
        told = "; ".join(f"{fault.message}: {fault.field}" for fault in faults)
        raise Conflict(
            Code.FIELD_OWNED,
            f"Apply failed with {count}: {told}; leave the fields out, or take them over by force",
            faults=faults,
        )
    taken = _Reach(changing)
    return [
        one._replace(paths=frozenset(path for path in one.paths if not taken.touches(path)))
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
    """Return entries with the writer's own; its time changes only if its fields do."""
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
    # The place stays, so that a write that changes nothing changes nothing here.
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
    """Return the fields of a document that managers set, and their values."""
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
    """Return, for each of `paths`, the leaves that are it or below it, where there are any."""
    found: defaultdict[Path, dict[Path, Any]] = defaultdict(dict)
    for leaf, value in leaves.items():
        for path in _down_to(leaf):
            if path in paths:
                found[path][leaf] = value
    return found


class _Reach:
    """Paths, and all that is above or below one of them.

    Asking costs as many steps as a path has names, however many paths there are: what a tenant may
    write has thousands.
    """

    def __init__(self, paths: Collection[Path]) -> None:
        self._paths = frozenset(paths)
        self._down_to_them = {above for path in paths for above in _down_to(path)}

    def touches(self, path: Path) -> bool:
        """Whether a path is one of them, or above or below one."""
        return path in self._down_to_them or any(one in self._paths for one in _down_to(path))


def _down_to(path: Path) -> Iterator[Path]:
    """Yield the paths from the top down to a path, itself included."""
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
    """Remove a field, and the objects that are empty without it."""
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
