"""Computes the patch of an edited document, and conflicts with concurrent changes.

Pure. A patch is a JSON merge patch (RFC 7396): a list is one value, and null removes a field.
"""

from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

_NOT_FOR_EDITORS = (
    *("managedFields", "uid", "generation", "creationTimestamp", "resourceVersion"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
"""Server-managed metadata."""


def editable(document: Mapping[str, Any]) -> Document:
    """Return the editable part of a resource."""
    metadata = {
        name: value for name, value in document["metadata"].items() if name not in _NOT_FOR_EDITORS
    }
    rest = {name: value for name, value in document.items() if name != "status"}
    return rest | {"metadata": metadata}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """Return the patch from the first document to the second; empty if they are equal."""
    patch: Document = {}
    for name in before.keys() | after.keys():
        was, now = before.get(name), after.get(name)
        if name not in after:
            patch[name] = None
        elif isinstance(was, Mapping) and isinstance(now, Mapping):
            if inner := difference(was, now):
                patch[name] = inner
        elif was != now:
            patch[name] = now
    return patch


def conflicting_fields(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], above: str = ""
) -> list[str]:
    """Return the fields that two patches change differently."""
    found: list[str] = []
    for name in sorted(mine.keys() & theirs.keys()):
        path = f"{above}.{name}" if above else name
        one, other = mine[name], theirs[name]
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += conflicting_fields(one, other, path)
        elif one != other:
            found.append(path)
    return found
