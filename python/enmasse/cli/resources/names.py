"""Resource names for addresses and users."""

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enmasse.base.errors import Code, Invalid, Missing
from enmasse.cli.resources import kinds

if TYPE_CHECKING:
    from enmasse.cli.connect.client import Api


def in_space(space: str, name: str) -> str:
    """Return a resource's full name, `<space>.<name>`; idempotent."""
    return name if name.startswith(f"{space}.") else f"{space}.{name}"


def find(
    listed: Sequence[dict[str, Any]], model: kinds.Named, name: str, space: str
) -> dict[str, Any]:
    """Return the resource with a name: its address or user name, or its resource name.

    Raises: Missing if there is none in the space.
    """
    field = FIELDS.get(model.plural, "")
    prefix = f"{space}." if space else ""
    # The name for clients comes first; a resource name is often derived from it.
    for document in listed:
        own = document["metadata"]["name"]
        if field and own.startswith(prefix) and name in client_names(document, field):
            return document
    for document in listed:
        if document["metadata"]["name"] in (name, prefix + name):
            return document
    where = f" in address space {space!r}" if space else ""
    known = [
        client_names(one, field)[0] if field else one["metadata"]["name"].removeprefix(prefix)
        for one in listed
        if one["metadata"]["name"].startswith(prefix)
    ]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    message = f"{kinds.plural_of(model)} {name!r} not found{where}{hint}"
    raise Missing(Code.RESOURCE_MISSING, message)


def with_name(
    listed: Sequence[dict[str, Any]], model: kinds.Named, name: str
) -> list[dict[str, Any]]:
    """Return every resource with a name, in all spaces and namespaces."""
    field = FIELDS.get(model.plural)
    return [
        one
        for one in listed
        if name
        in (
            own := one["metadata"]["name"],
            *(own.partition(".")[2:] if field else ()),
            *(client_names(one, field) if field else ()),
        )
    ]


def client_names(document: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """Return the names of a resource for clients, best first, including a subscription's
    `topic::address`.
    """
    spec = document["spec"]
    full = (f"{spec['topic']}::{spec[field]}",) if "topic" in spec else ()
    return (*full, spec[field])


FIELDS = {"addresses": "address", "messagingusers": "username"}
"""Field of the spec with the name for clients, by plural."""


def fetch_by_name(
    api: "Api", model: kinds.Named, name: str, space: str, namespace: str | None
) -> dict[str, Any]:
    """Return the resource with a name, by its name for clients or its resource name.

    `namespace`: None means all, for listed kinds only.

    Raises: Missing if there is none; Invalid if it is ambiguous between namespaces.
    """
    if model.plural in FIELDS or model.plural == "addressspaces":
        where = space if model.plural in FIELDS else ""
        has_statistics = model.plural == "addresses"
        listed = api.list(model.plural, namespace, statistics=has_statistics)["items"]
        return find(listed, model, name, where)
    if model.unique:
        # Their names are unique across namespaces.
        return find(api.list(model.plural, None)["items"], model, name, "")
    if namespace is None and model.namespaced:
        message = "a resource cannot be retrieved by name across all namespaces; add -n NS"
        raise Invalid(Code.REQUEST_INVALID, message)
    return api.get(model, namespace or "", name)


def is_in_space(model: kinds.Named, document: Mapping[str, Any], space: str) -> bool:
    """Whether a resource is in an address space, or of a kind outside spaces."""
    name = document["metadata"]["name"]
    return model.plural not in FIELDS or name.startswith(f"{space}.")
