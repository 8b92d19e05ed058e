"""Initial resources: the first address space, and the default space of connections."""

from collections.abc import Collection, Sequence

from enmasse.plan import FIRST_DEFAULT, default_space
from enmasse.resources import (
    Address,
    AddressSpace,
    AddressSpaceSpec,
    AddressSpec,
    Namespace,
    Resource,
)
from enmasse.resources.address import OPEN_NAME_SPACE, SERVED_TYPES, AddressMetadata
from enmasse.resources.address_space import AddressSpaceMetadata
from enmasse.resources.model import DEFAULT_SPACE_ANNOTATION
from enmasse.store import Store

DEFAULT_SPACE = FIRST_DEFAULT[1]


def default_resources(types: Sequence[str] = SERVED_TYPES) -> list[Resource]:
    """Return the space `default` with one address per type, named after its type.

    For MQTT its whole name space is open, as on a plain MQTT broker.
    """
    return [_default_space(), *(_default_address(type_) for type_ in types), _open_to_mqtt()]


def with_default_space(resources: Sequence[Resource], store: Store) -> list[Resource]:
    """Return resources, plus the space `default` if they need it and do not declare it.

    The usual first file contains only addresses.
    """
    space = _default_space()
    needed = any(_in_default_space(resource) for resource in resources)
    declared = store.get(space.key) or any(resource.key == space.key for resource in resources)
    return [space, *resources] if needed and not declared else list(resources)


def with_default_noted(
    platform: Namespace, spaces: Collection[tuple[str, str]]
) -> Namespace | None:
    """Return the platform's namespace with the default space recorded, if that is due.

    `spaces`: namespace and name of all spaces. The space `default` is the default one, else the
    first while it is the only one. It is recorded as early as possible, so that no other space
    replaces it when it is deleted, and a second space does not lock out clients that name none.
    """
    if default_space(platform) is not None:
        return None
    if FIRST_DEFAULT in spaces:
        namespace, name = FIRST_DEFAULT
    elif len(spaces) == 1:
        ((namespace, name),) = spaces
    else:
        return None
    annotations = platform.metadata.annotations | {DEFAULT_SPACE_ANNOTATION: f"{name}.{namespace}"}
    return platform.with_metadata(annotations=annotations)


def _in_default_space(resource: Resource) -> bool:
    home = (resource.metadata.namespace, resource.space)
    return home == FIRST_DEFAULT


def _default_space() -> AddressSpace:
    return AddressSpace(
        metadata=AddressSpaceMetadata(name=DEFAULT_SPACE),
        spec=AddressSpaceSpec(type="standard"),
    )


def _open_to_mqtt() -> Address:
    return Address(
        metadata=AddressMetadata(name=f"{DEFAULT_SPACE}.mqtt"),
        spec=AddressSpec(type="topic", address=OPEN_NAME_SPACE, protocols=("mqtt",)),
    )


def _default_address(type_: str) -> Address:
    return Address(
        metadata=AddressMetadata(name=f"{DEFAULT_SPACE}.{type_}"),
        spec=AddressSpec(
            type=type_, address=type_, topic="topic" if type_ == "subscription" else None
        ),
    )
