"""What is there without having been declared: enough for a first message."""

from collections.abc import Sequence

from enmasse.resources import (
    DEFAULT_NAMESPACE,
    Address,
    AddressSpace,
    AddressSpaceSpec,
    AddressSpec,
    Resource,
)
from enmasse.resources.address import SERVED_TYPES, AddressMetadata
from enmasse.resources.address_space import AddressSpaceMetadata
from enmasse.store import Store

DEFAULT_SPACE = "default"


def default_resources(types: Sequence[str] = SERVED_TYPES) -> list[Resource]:
    """Return the space `default` with one address of each type, named after its type."""
    return [_default_space(), *(_default_address(type_) for type_ in types)]


def with_default_space(resources: Sequence[Resource], store: Store) -> list[Resource]:
    """Return resources, and the space `default` if they need it and nobody declares it.

    A file of addresses alone is the commonest first file; that it also wants a space is a thing to
    learn later.
    """
    space = _default_space()
    needed = any(_in_default_space(resource) for resource in resources)
    declared = store.get(space.key) or any(resource.key == space.key for resource in resources)
    return [space, *resources] if needed and not declared else list(resources)


def _in_default_space(resource: Resource) -> bool:
    home = (resource.metadata.namespace, resource.space)
    return home == (DEFAULT_NAMESPACE, DEFAULT_SPACE)


def _default_space() -> AddressSpace:
    return AddressSpace(
        metadata=AddressSpaceMetadata(name=DEFAULT_SPACE),
        spec=AddressSpaceSpec(type="standard"),
    )


def _default_address(type_: str) -> Address:
    return Address(
        metadata=AddressMetadata(name=f"{DEFAULT_SPACE}.{type_}"),
        spec=AddressSpec(
            type=type_, address=type_, topic="topic" if type_ == "subscription" else None
        ),
    )
