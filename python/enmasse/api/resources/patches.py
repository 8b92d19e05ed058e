"""Patches: JSON merge patch (RFC 7396), JSON patch (RFC 6902), and the strategic merge patch of the
Kubernetes core kinds.
"""

import copy
import json
from typing import Any

from enmasse.base.errors import Code, Fault, Invalid
from enmasse.resources.shape import excess

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

OPERATIONS_MAX = 10_000
"""Maximum operations of a JSON patch, as in Kubernetes."""

COPIED_BYTES_MAX = 1 << 20
"""Maximum bytes added by `copy` operations, which could otherwise fill memory."""


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` applied: null removes a member, objects are merged."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def json_patch(target: dict[str, Any], patch: Any) -> Any:
    """Return `target` with all operations of `patch` applied.

    Raises: Invalid naming the operation that is malformed, does not apply, or fails its test.
    """
    if not isinstance(patch, list) or len(patch) > OPERATIONS_MAX:
        raise _refused("", f"a JSON patch is a list of at most {OPERATIONS_MAX} operations")
    operations = _Operations(copy.deepcopy(target))
    for number, operation in enumerate(patch):
        try:
            operations.apply(operation)
        except _InvalidOperation as error:
            raise _refused(f"[{number}]", str(error)) from None
    return operations.document


class _InvalidOperation(Exception):
    """Why an operation cannot be applied."""


class _Operations:
    """The target document of a JSON patch (RFC 6902, 4)."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._copied = 0

    def apply(self, operation: Any) -> None:
        if not isinstance(operation, dict):
            raise _InvalidOperation("is not an operation: it must be an object with op and path")
        match operation.get("op"):
            case "add":
                self._add(_pointer(operation, "path"), _value(operation))
            case "remove":
                self._remove(_pointer(operation, "path"))
            case "replace":
                at = _pointer(operation, "path")
                self._remove(at)
                self._add(at, _value(operation))
            case "move":
                source, at = _pointer(operation, "from"), _pointer(operation, "path")
                # RFC 6902, 4.4: from must not be a proper prefix of path.
                if at[: len(source)] == source and at != source:
                    raise _InvalidOperation("moves something into itself")
                value = self._at(source)
                self._remove(source)
                self._add(at, value)
            case "copy":
                value = self._at(_pointer(operation, "from"))
                # Repeated copies double a document with each operation: their sum is bounded.
                if problem := excess(value, COPIED_BYTES_MAX):
                    raise _InvalidOperation(f"cannot be copied: {problem}")
                self._copied += len(json.dumps(value))
                if self._copied > COPIED_BYTES_MAX:
                    raise _InvalidOperation(f"copies more than {COPIED_BYTES_MAX} bytes")
                self._add(_pointer(operation, "path"), copy.deepcopy(value))
            case "test":
                if not _same(self._at(_pointer(operation, "path")), _value(operation)):
                    raise _InvalidOperation(f"the test of {operation['path']!r} fails")
            case other:
                raise _InvalidOperation(
                    f"{other!r} must be one of add, remove, replace, move, copy, test"
                )

    def _at(self, pointer: list[str]) -> Any:
        found = self.document
        for part in pointer:
            if isinstance(found, dict) and part in found:
                found = found[part]
            elif isinstance(found, list):
                found = found[_index(part, len(found) - 1)]
            else:
                raise _InvalidOperation(f"path segment {part!r} not found")
        return found

    def _add(self, pointer: list[str], value: Any) -> None:
        if not pointer:
            self.document = value
            return
        parent, last = self._at(pointer[:-1]), pointer[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif isinstance(parent, list):
            parent.insert(len(parent) if last == "-" else _index(last, len(parent)), value)
        else:
            raise _InvalidOperation(
                f"cannot add {last!r}: the target is neither an object nor a list"
            )

    def _remove(self, pointer: list[str]) -> None:
        self._at(pointer)
        if not pointer:
            self.document = None
            return
        parent, last = self._at(pointer[:-1]), pointer[-1]
        del parent[int(last) if isinstance(parent, list) else last]


def _pointer(operation: dict[str, Any], name: str) -> list[str]:
    """Return the segments of a JSON pointer (RFC 6901)."""
    text = operation.get(name)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _InvalidOperation(f"{name} must be a JSON pointer, such as /spec/plan")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _InvalidOperation("has no value")
    return copy.deepcopy(operation["value"])


def _index(part: str, last: int) -> int:
    if not part.isascii() or not part.isdecimal() or (part[0] == "0" and part != "0"):
        raise _InvalidOperation(f"{part!r} is not a list index")
    if len(part) > 9 or int(part) > last:
        raise _InvalidOperation(f"the list has no index {part}")
    return int(part)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON: true is not 1.

    Takes at most as many steps as `other`, a part of the body, has values: a patch may test a large
    value ten thousand times.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _same(one[name], value) for name, value in other.items()
        )
    if isinstance(one, list | tuple) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def strategic_merge_patch(target: dict[str, Any], patch: Any) -> Any:
    """Return `target` with a strategic merge patch applied.

    No list of these kinds has a merge key, except metadata.finalizers, which is a set.

    Raises: Invalid for an unknown directive.
    """
    finalizers = target.get("metadata", {}).get("finalizers", [])
    merged = merge_patch(target, _without_directives(patch))
    if not isinstance(patch, dict) or not isinstance(metadata := patch.get("metadata"), dict):
        return merged
    added = metadata.get("finalizers") or []
    removed = metadata.get("$deleteFromPrimitiveList/finalizers") or []
    if "finalizers" in metadata or removed:
        kept = [one for one in dict.fromkeys([*finalizers, *added]) if one not in removed]
        merged["metadata"]["finalizers"] = kept
    return merged


def _without_directives(patch: Any, path: str = "") -> Any:
    if not isinstance(patch, dict):
        return patch
    plain = {}
    for name, value in patch.items():
        below = f"{path}.{name}" if path else name
        if name.startswith("$setElementOrder/") or below == (
            "metadata.$deleteFromPrimitiveList/finalizers"
        ):
            continue
        if name.startswith("$"):
            raise _refused(below, "is not supported; send a JSON merge patch")
        plain[name] = _without_directives(value, below)
    return plain


def _refused(field: str, problem: str) -> Invalid:
    fault = Fault(field, problem)
    return Invalid(Code.PATCH_UNFIT, str(fault), faults=[fault])
