"""Label and field selectors."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic.alias_generators import to_snake

from enmasse.base.errors import Code, Fault, Invalid
from enmasse.resources import Address, Resource
from enmasse.resources.model import SPACE

SELECTOR_BYTES_MAX = 16 * 1024
"""Maximum length of a selector."""

Selector = Callable[[Resource], bool]
_Requirement = Callable[[Mapping[str, str]], bool]

_KEY = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_VALUE = r"[-A-Za-z0-9_.]*"
_REQUIREMENT = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*(?P<operator>==|=|!=|<|>)\s*(?P<value>{_VALUE})"
    rf"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,(?=.)|$)",
    re.DOTALL,
)
_FIELD = re.compile(r"((?:[^,=!\\]|\\.)+)(==|=|!=)((?:[^,\\]|\\.)*)(?:,(?=.)|$)", re.DOTALL)


def everything(_: Resource) -> bool:
    """Select every resource."""
    return True


def selector(model: type[Resource], labels: str, fields: str) -> Selector:
    """Return the predicate of a label and a field selector, each empty for all.

    Raises: Invalid if one is malformed or uses an unsupported field.
    """
    by_label = list(_label_requirements(labels))
    by_field = list(_field_requirements(model, fields))
    if not by_label and not by_field:
        return everything

    def selects(resource: Resource) -> bool:
        marks = resource.metadata.labels
        return all(meets(marks) for meets in by_label) and all(
            meets(resource) for meets in by_field
        )

    return selects


def contains(text: str, resource: Resource) -> bool:
    """Whether the name, or the address, of a resource contains a text, regardless of case."""
    wanted = text.casefold()
    if wanted in resource.metadata.name.casefold():
        return True
    return isinstance(resource, Address) and wanted in resource.spec.address.casefold()


def value_at(resource: Resource, path: str) -> Any:
    """Return the value at a path of a resource, or None."""
    found: Any = resource
    for part in path.split("."):
        found = getattr(found, to_snake(part), None)
    return found


def _label_requirements(text: str) -> Iterator[_Requirement]:
    for found in _parts(_REQUIREMENT, text, "labelSelector"):
        yield _requirement(found)


def _requirement(found: re.Match[str]) -> _Requirement:
    if (absent := found["absent"]) is not None:
        return lambda labels: absent not in labels
    key, operator, value = found["key"], found["operator"], found["value"]
    if operator in ("<", ">"):
        if not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise _unreadable("labelSelector", f"{value!r} after {operator} is not a whole number")
        return lambda labels: _compares(labels.get(key), operator, int(value))
    if found["set"] is not None:
        operator, values = found["set"], {one.strip() for one in found["values"].split(",")}
    elif operator is not None:
        values = {value}
    else:
        return lambda labels: key in labels
    if operator in ("!=", "notin"):
        return lambda labels: labels.get(key) not in values
    return lambda labels: labels.get(key) in values


def _compares(label: str | None, operator: str, bound: int) -> bool:
    if label is None or not re.fullmatch(r"-?[0-9]{1,18}", label):
        return False
    return int(label) < bound if operator == "<" else int(label) > bound


def _field_requirements(model: type[Resource], text: str) -> Iterator[Selector]:
    known = ("metadata.name", "metadata.namespace", *model.selectable)
    for found in _parts(_FIELD, text, "fieldSelector"):
        path, operator, value = (re.sub(r"\\(.)", r"\1", part) for part in found.groups())
        path = path.strip()
        if path not in known:
            raise _unreadable("fieldSelector", f"unknown field {path!r}; known: {', '.join(known)}")
        yield _field_requirement(path, value, wanted=operator != "!=")


def _field_requirement(path: str, value: str, *, wanted: bool) -> Selector:
    if path == SPACE:
        # not a member of the document: the first part of the name
        return lambda resource: (_space(resource) == value) is wanted
    return lambda resource: (_text(value_at(resource, path)) == value) is wanted


def _space(resource: Resource) -> str:
    return resource.metadata.name.partition(".")[0]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _parts(pattern: re.Pattern[str], text: str, name: str) -> Iterator[re.Match[str]]:
    if len(text) > SELECTOR_BYTES_MAX:
        raise _unreadable(name, f"must have at most {SELECTOR_BYTES_MAX} bytes")
    at = 0
    while at < len(text):
        found = pattern.match(text, at)
        if found is None:
            raise _unreadable(name, f"syntax error at {text[at : at + 40]!r}")
        yield found
        at = found.end()


def _unreadable(name: str, problem: str) -> Invalid:
    fault = Fault(name, problem)
    return Invalid(Code.SELECTOR_UNREADABLE, str(fault), faults=[fault])
