"""Content negotiation: the Accept header with the Kubernetes extensions."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from enmasse.base.errors import Code, Invalid

META_GROUP = "meta.k8s.io"
ACCEPT_BYTES_MAX = 4096


class Media(NamedTuple):
    """One entry of an Accept header."""

    type: str
    options: Mapping[str, str]


class Form(NamedTuple):
    """The format of a response."""

    kind: str
    """Table, PartialObjectMetadata, or empty for the full resource."""

    version: str = "v1"


WHOLE = Form("")
_FORMS = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadata",
}
_VERSIONS = ("v1", "v1beta1")


def accepted(header: str | None) -> Iterator[Media]:
    """Yield the entries of an Accept header in order; weights are ignored."""
    for entry in (header or "*/*")[:ACCEPT_BYTES_MAX].split(","):
        type_, *rest = (part.strip() for part in entry.split(";"))
        pairs = (part.partition("=") for part in rest)
        yield Media(type_.lower(), {name.strip(): value.strip() for name, _, value in pairs})


def form_of(header: str | None) -> Form:
    """Return the first supported format that the client accepts.

    Raises: Invalid if there is none.
    """
    for media in accepted(header):
        if media.type not in ("application/json", "application/*", "*/*"):
            continue
        wanted = media.options.get("as")
        if wanted is None:
            return WHOLE
        version = media.options.get("v", "")
        if wanted in _FORMS and media.options.get("g") == META_GROUP and version in _VERSIONS:
            return Form(_FORMS[wanted], version)
    raise Invalid(
        Code.FORM_UNSUPPORTED,
        f"cannot respond with {header!r}; accept application/json",
    )
