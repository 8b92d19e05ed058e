"""Parses resources: YAML or JSON, several documents in one text, with `kind: List` expanded."""

import contextlib
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from enmasse.base.errors import Code, EnMasseError, Fault, Invalid
from enmasse.resources import faults
from enmasse.resources.address import Address
from enmasse.resources.address_plan import AddressPlan
from enmasse.resources.address_space import AddressSpace
from enmasse.resources.address_space_plan import AddressSpacePlan
from enmasse.resources.address_space_schema import AddressSpaceSchema
from enmasse.resources.authentication_service import AuthenticationService
from enmasse.resources.core import ConfigMap, Event, Namespace, Secret, Service
from enmasse.resources.infra_config import BrokeredInfraConfig, StandardInfraConfig
from enmasse.resources.messaging_node import MessagingNode
from enmasse.resources.messaging_user import STORED, MessagingUser
from enmasse.resources.model import Key, Resource
from enmasse.resources.pipeline import Pipeline
from enmasse.resources.shape import (
    ALIASED_MAX,
    NESTING_MAX,
    RESOURCE_VALUES_MAX,
    TOO_DEEP,
    TOO_MUCH_ALIASED,
    excess,
    too_many,
    unwritable,
)

KINDS: dict[str, type[Resource]] = {
    model.__name__: model
    for model in (
        *(Namespace, Secret, ConfigMap, Service),
        *(StandardInfraConfig, BrokeredInfraConfig, AddressPlan, AddressSpacePlan),
        *(AuthenticationService, MessagingNode, AddressSpace, Address, MessagingUser, Pipeline),
    )
}
"""Every kind, in the order in which resources of a file are applied."""

_COMPUTED: dict[str, type[Resource]] = {
    model.__name__: model for model in (AddressSpaceSchema, Event)
}
"""Generated kinds: the store has them, and requests cannot contain them."""

_SERVER_METADATA = (
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Server-managed metadata, which is ignored in a request."""

VALUES_MAX = 1_000_000
"""Maximum values and field names of a file, which may have many resources."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(_Loader):  # type: ignore[misc]
    """A safe YAML loader that refuses a duplicate key of a mapping instead of dropping one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key {key.value!r}", key.start_mark
                )
            seen.add(key.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def load(text: str, source: str, namespace: str | None = None) -> list[Resource]:
    """Return the resources of a YAML or JSON text; `source` names it in errors.

    `namespace` is the default namespace; it does not apply to plans and similar kinds.

    Raises: Invalid for the first document that is not a valid resource, or conflicts with an
        earlier document. The message names the source, the document, and every invalid field.
    """
    resources: list[Resource] = []
    declared: dict[Key, tuple[int, Resource]] = {}
    for number, data in enumerate(_documents(text, source), start=1):
        try:
            for item in _items(data):
                resource = parse(_with_namespace(item, namespace))
                first, before = declared.setdefault(resource.key, (number, resource))
                if before != resource:
                    raise _conflicting_documents(resource, first)
                resources.append(resource)
        except EnMasseError as error:
            message = f"{source}, document {number}: {error.message}"
            raise Invalid(error.code, message, faults=error.faults) from None
    return resources


def _with_namespace(item: object, namespace: str | None) -> object:
    """Return plain data with the default namespace, if its kind is namespaced and it has none."""
    if namespace is None or not isinstance(item, Mapping):
        return item
    model, metadata = KINDS.get(str(item.get("kind"))), item.get("metadata")
    if model is None or not model.namespaced or model.unique or not isinstance(metadata, Mapping):
        return item
    return {**item, "metadata": {"namespace": namespace, **metadata}}


def one_document(text: str) -> object:
    """Return the plain data of a YAML or JSON text with one document.

    Raises: Invalid if it is unreadable, has no or several documents, or exceeds the limits of a
        resource (NESTING_MAX, RESOURCE_VALUES_MAX).
    """
    found = list(_documents(text, "the body", RESOURCE_VALUES_MAX))
    if len(found) != 1:
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"the body has {len(found)} documents, not one")
    return found[0]


def parse(data: object, *, stored: bool = False) -> Resource:
    """Return the resource of plain data.

    `stored`: the data is from a store and may contain a status and server-managed fields. Otherwise
    a status is ignored.

    Raises: Invalid naming every invalid field.
    """
    if not isinstance(data, Mapping):
        raise Invalid(Code.DOCUMENT_UNREADABLE, "not a resource: it must be a mapping with `kind`")
    model = _model(data, KINDS | _COMPUTED if stored else KINDS)
    if not stored:
        data = _without_server_fields(data)
    try:
        resource = model.model_validate(
            data, by_alias=True, by_name=False, context={STORED: stored}
        )
    except ValidationError as error:
        raise invalid(model.__name__, _name(data), faults.of(error, model)) from None
    # Stored resources were admitted; a stricter rule must not make them unreadable.
    if not stored and (found := resource.faults()):
        raise invalid(model.__name__, _name(data), faults.first(found, lambda fault: fault))
    return resource


def pruned(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Fault]]:
    """Return plain data without unknown fields, and an error for each of the first FAULTS_MAX.

    Raises: Invalid if the kind is unknown.
    """
    model = _model(data)
    data = _without_server_fields(data)
    try:
        model.model_validate(data, by_alias=True, by_name=False, context={STORED: False})
    except ValidationError as error:
        unknown = [
            detail for detail in error.errors(include_url=False) if detail["type"] == faults.UNKNOWN
        ]
        data = _unshared_copy(data)
        for detail in unknown:
            _remove(data, detail["loc"])
        return data, faults.faults_of(unknown, model)
    return data, []


def _unshared_copy(data: Any) -> Any:
    """Return a deep copy without shared objects, such as those of YAML aliases."""
    if isinstance(data, Mapping):
        return {name: _unshared_copy(value) for name, value in data.items()}
    return [_unshared_copy(value) for value in data] if isinstance(data, list) else data


def _remove(data: Any, location: Sequence[int | str]) -> None:
    *above, last = location
    for part in above:
        data = data[part]
    del data[last]


def in_order(resources: Iterable[Resource]) -> list[Resource]:
    """Return resources in order of dependencies: spaces, then addresses that others refer to."""
    kinds = list(KINDS)
    return sorted(resources, key=lambda one: (kinds.index(one.kind), one.needs_others))


def invalid(kind: str, name: str, found: list[Fault]) -> Invalid:
    """Return the error for a resource with faults, in one line."""
    subject = f"{kind} {name}" if name else kind
    summary = "; ".join(str(fault) for fault in found)
    return Invalid(Code.FIELD_INVALID, f"{subject}: {summary}", faults=found, name=name)


def _conflicting_documents(resource: Resource, first: int) -> Invalid:
    fault = Fault("metadata.name", f"document {first} declares it differently; keep one of the two")
    return invalid(resource.kind, resource.metadata.name, [fault])


def _documents(text: str, source: str, values_max: int = VALUES_MAX) -> Iterator[object]:
    for document in _read(text, source, values_max):
        if problem := excess(document, values_max) or unwritable(document):
            raise _unreadable(source, problem)
        yield document


def _read(text: str, source: str, values_max: int) -> Iterator[object]:
    try:
        if text.lstrip().startswith(("{", "[")):
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(text)
                return
            # YAML in flow style has the same first character; its parser reports the error.
        _check_shape(text, source, values_max)
        for document in yaml.load_all(text, Loader=_StrictLoader):
            if document is not None:
                yield document
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise _unreadable(source + where, getattr(error, "problem", None)) from None
    except ValueError as error:  # An invalid date or number.
        raise _unreadable(source, str(error)) from None
    except RecursionError:
        raise _unreadable(source, TOO_DEEP) from None


def _check_shape(text: str, source: str, values_max: int) -> None:
    """Check that constructing a YAML text takes bounded stack and memory.

    Events of the parser are not nested, but libyaml's composer recurses for each level, and an
    alias of a few bytes can represent any number of values, or a long text.

    Raises: Invalid beyond NESTING_MAX, `values_max` or ALIASED_MAX; yaml.YAMLError if it is not
        YAML.
    """
    values = characters = aliased = 0
    sizes: dict[str, tuple[int, int]] = {}
    above: list[tuple[str | None, int, int]] = []
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            # An alias has the size of its node.
            more_values, more_characters = sizes.get(event.anchor or "", (0, 0))
            values += more_values
            characters += more_characters
            aliased += more_characters
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            characters += len(event.value)
            if event.anchor is not None:
                sizes[event.anchor] = 1, len(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            above.append((event.anchor, values, characters))
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values_before, characters_before = above.pop()
            if anchor is not None:
                sizes[anchor] = values - values_before, characters - characters_before
        if len(above) > NESTING_MAX:
            raise _unreadable(source, TOO_DEEP)
        if values > values_max:
            raise _unreadable(source, too_many(values_max))
        if aliased > ALIASED_MAX:
            raise _unreadable(source, TOO_MUCH_ALIASED)


def _unreadable(where: str, problem: str | None) -> Invalid:
    return Invalid(
        Code.DOCUMENT_UNREADABLE, f"{where}: not a YAML document: {problem or 'unreadable'}"
    )


def _items(data: object) -> Iterator[object]:
    if isinstance(data, list):
        yield from data
    elif isinstance(data, Mapping) and isinstance(data.get("items"), list):
        yield from data["items"]
    else:
        yield data


_NOT_OFFERED = {
    "ConsoleService": "the platform has no console; remove the document",
    "IoTConfig": "the platform has no device registry; remove the document",
    "IoTProject": "the platform has no device registry; remove the document",
}
"""Kinds of the first EnMasse without a successor here, and the remedy for their documents."""


def _model(data: Mapping[Any, Any], kinds: Mapping[str, type[Resource]] = KINDS) -> type[Resource]:
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        hint = _NOT_OFFERED.get(str(kind)) or faults.nearest(str(kind or ""), list(kinds))
        problem = "is required" if kind is None else f"{kind!r} is not served"
        fault = Fault("kind", f"{problem}; {hint}")
        raise Invalid(Code.KIND_UNKNOWN, str(fault), faults=[fault])
    model = kinds[kind]
    version = data.get("apiVersion")
    if version not in model.api_versions:
        problem = "is required" if version is None else f"{version!r} is not served"
        fault = Fault("apiVersion", f"{problem}; write {model.api_versions[0]}")
        raise Invalid(Code.KIND_UNKNOWN, f"{kind} {_name(data)}: {fault}", faults=[fault])
    return model


def _name(data: Mapping[Any, Any]) -> str:
    metadata = data.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def _without_server_fields(data: Mapping[Any, Any]) -> dict[Any, Any]:
    """Drop server-managed fields, which a document read from a server contains."""
    model = _model(data)
    kept = {name: value for name, value in data.items() if name != "status"}
    kept = model.present_form(kept) | {"apiVersion": model.api_versions[0]}
    if isinstance(metadata := kept.get("metadata"), Mapping):
        kept["metadata"] = {
            name: value for name, value in metadata.items() if name not in _SERVER_METADATA
        }
    return kept
