"""Names of resources for what people name by address or user name."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enmasse.base.errors import Code, Invalid, Missing
from enmasse.base.ids import short_hash
from enmasse.cli import kinds

if TYPE_CHECKING:
    from enmasse.cli.client import Api

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


def find(
    listed: Sequence[dict[str, Any]], model: kinds.Named, name: str, space: str
) -> dict[str, Any]:
    """Return what a name means: what clients call it, or the resource's own name.

    Raises: Missing if nothing in the space is called so.
    """
    field = FIELDS.get(model.plural, "")
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
    message = f"{kinds.plural_of(model)} {name!r} not found{where}{hint}"
    raise Missing(Code.RESOURCE_MISSING, message)


def meaning(
    listed: Sequence[dict[str, Any]], model: kinds.Named, name: str
) -> list[dict[str, Any]]:
    """Return everything that a name means, in whatever space and namespace."""
    field = FIELDS.get(model.plural)
    return [
        one
        for one in listed
        if name
        in (
            own := one["metadata"]["name"],
            *(own.partition(".")[2:] if field else ()),
            *(called(one, field) if field else ()),
        )
    ]


def called(document: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """Return what clients call a resource, best first: a subscription `topic::address` too."""
    spec = document["spec"]
    full = (f"{spec['topic']}::{spec[field]}",) if "topic" in spec else ()
    return (*full, spec[field])


FIELDS = {"addresses": "address", "messagingusers": "username"}
"""The field of spec by which people call what belongs to an address space, by plural."""


def looked_up(
    api: "Api", model: kinds.Named, name: str, space: str, namespace: str | None
) -> dict[str, Any]:
    """Return the resource that a name means: of what belongs to an address space what clients call
    it, or its own name.

    `namespace`: None is all, which only goes for what is listed anyway.

    Raises: Missing if there is none; Invalid if it could be in several namespaces.
    """
    if model.plural in FIELDS or model.plural == "addressspaces":
        where = space if model.plural in FIELDS else ""
        has_figures = model.plural == "addresses"
        listed = api.list(model.plural, namespace, statistics=has_figures)["items"]
        return find(listed, model, name, where)
    if model.unique:
        # Of those there is one of a name through all namespaces.
        return find(api.list(model.plural, None)["items"], model, name, "")
    if namespace is None and model.namespaced:
        message = "a resource cannot be retrieved by name across all namespaces; say -n NS"
        raise Invalid(Code.REQUEST_INVALID, message)
    return api.get(model, namespace or "", name)


def in_its_space(model: kinds.Named, document: Mapping[str, Any], space: str) -> bool:
    """Whether a resource belongs to an address space, or is of a kind that belongs to none."""
    name = document["metadata"]["name"]
    return model.plural not in FIELDS or name.startswith(f"{space}.")
