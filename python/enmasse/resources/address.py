"""Address: a name that clients send to and receive from, and what happens to messages there."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from enmasse.resources.model import Metadata, Model, Resource, name_in_space

TYPES = ("anycast", "multicast", "queue", "topic", "subscription", "deadletter")
"""Every type there is."""

SERVED_TYPES = ("anycast", "multicast")
"""The types this node can serve."""

ADDRESS_BYTES_MAX = 1024
"""Longest address. MQTT would allow 65535 bytes; other brokers stop between 255 and 4096."""

OPEN_NAME_SPACE = "#"
"""The one declared address that stands for every name nothing else covers."""


def _address(value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    if len(value.encode()) > ADDRESS_BYTES_MAX:
        raise ValueError(f"is longer than {ADDRESS_BYTES_MAX} bytes")
    if any(character.isspace() or not character.isprintable() for character in value):
        raise ValueError("must not contain white space or control characters")
    if value.startswith(("_!", "$")):
        raise ValueError("must not begin with `_!` or `$`: those names belong to the node")
    if value != OPEN_NAME_SPACE and ("*" in value or {"+", "#"} & set(value.split("/"))):
        raise ValueError(
            "must not have `*` anywhere, nor `+` or `#` as a level: those are wildcards"
            " (`#` alone declares an open name space)"
        )
    return value


def _served_type(value: str) -> str:
    served = ", ".join(SERVED_TYPES)
    if value not in TYPES:
        raise ValueError(f"{value!r} is not an address type; this node serves {served}")
    if value not in SERVED_TYPES:
        raise ValueError(f"{value!r} cannot be served by this node; it serves {served}")
    return value


class AddressMetadata(Metadata):
    """Metadata of an address."""

    name: Annotated[str, AfterValidator(name_in_space)]
    """`<space>.<name>`; the first part names the address space."""


class AddressSpec(Model):
    """What an address is. `address` and `type` cannot change later."""

    type: Annotated[str, AfterValidator(_served_type)]
    """What happens to messages: anycast (one consumer each) or multicast (every consumer)."""

    address: Annotated[str, AfterValidator(_address)]
    """The name that clients use."""

    plan: str | None = None
    """Name of a plan. Any name is accepted until plans exist."""


class Address(Resource):
    """A declared address."""

    plural: ClassVar[str] = "addresses"
    immutable: ClassVar[tuple[str, ...]] = ("type", "address")

    kind: Literal["Address"] = Field(default="Address")
    metadata: AddressMetadata
    spec: AddressSpec
