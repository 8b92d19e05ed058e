"""Names of resources for what people name by address or user name."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enmasse.base.errors import Code, Missing
from enmasse.base.ids import short_hash

if TYPE_CHECKING:
    from enmasse.cli.client import Api
    from enmasse.resources import Resource

_PART_MAX = 50


def in_space(space: str, name: str) -> str:
    """Return a resource's full name: `<space>.<name>`, where the space may be there already."""
    return name if name.startswith(f"{space}.") else f"{space}.{name}"


def resource_name(space: str, text: str) -> str:
    """Return a resource name for any address or user name, always the same one.

    A text that is allowed as it is stays as it is; from another the allowed characters are kept and
    a hash of the whole keeps different texts apart.
    """
    cleaned = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_PART_MAX].strip("-")
    if cleaned == text:
        return f"{space}.{text}"
    return f"{space}.{'-'.join(filter(None, [cleaned, short_hash(text)]))}"


KINDS = {"address": "address", "username": "user", "": "address space"}
"""What a person calls a kind, by the field of spec that clients call it by."""


def find(
    listed: Sequence[dict[str, Any]], field: str, name: str, space: str, kind: str | None = None
) -> dict[str, Any]:
    """Return what a name means: what clients call it, or the resource's own name.

    `field` of spec is what clients call it; `kind` is what to call the kind if nothing is found.

    Raises: Missing if nothing in the space is called so.
    """
    prefix = f"{space}." if space else ""
    for document in listed:
        own = document["metadata"]["name"]
        if field and own.startswith(prefix) and name in called(document, field):
            return document
    for document in listed:
        if document["metadata"]["name"] in (name, prefix + name):
            return document
    where = f" in address space {space!r}" if space else ""
    known = [
        called(one, field)[0] if field else one["metadata"]["name"].removeprefix(prefix)
        for one in listed
        if one["metadata"]["name"].startswith(prefix)
    ]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise Missing(
        Code.RESOURCE_MISSING, f"there is no {kind or KINDS[field]} {name!r}{where}{hint}"
    )


def called(document: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """Return what clients call a resource, best first: a subscription `topic::address` too."""
    spec = document["spec"]
    full = (f"{spec['topic']}::{spec[field]}",) if "topic" in spec else ()
    return (*full, spec[field])


FIELDS = {"addresses": "address", "messagingusers": "username"}
"""The field of spec by which people call what belongs to an address space, by plural."""


def looked_up(
    api: "Api", model: "type[Resource]", name: str, space: str, namespace: str
) -> dict[str, Any]:
    """Return the resource that a name means: of what belongs to an address space what clients call
    it, or its own name.

    Raises: Missing if there is none.
    """
    field = FIELDS.get(model.plural)
    if field is not None:
        return find(api.list(model.plural, namespace)["items"], field, name, space)
    if model.unique:
        # Of those there is one of a name through all namespaces.
        return find(api.list(model.plural, None)["items"], "", name, "", model.__name__)
    return api.get(model, namespace, name)


def in_its_space(model: "type[Resource]", document: Mapping[str, Any], space: str) -> bool:
    """Whether a resource belongs to an address space, or is of a kind that belongs to none."""
    name = document["metadata"]["name"]
    return model.plural not in FIELDS or name.startswith(f"{space}.")
