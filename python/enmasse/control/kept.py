"""What of a resource is kept and does nothing here: a condition with status False says so. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from enmasse.resources import Address, Declared, MessagingUser
from enmasse.resources.conditions import with_unmet
from enmasse.resources.infra_config import InfraConfig

FORWARDERS, PROVIDER, FIELDS = "ForwardersReady", "ProviderLinked", "AllFieldsServed"

SERVED = frozenset(
    {
        "broker.addressFullPolicy",
        "broker.globalMaxSize",
        "broker.treatRejectAsUnmodifiedDeliveryFailed",
        "router.linkCapacity",
        "router.policy.maxConnections",
        "router.policy.maxMessageSize",
    }
)
"""Fields of infra configs that a node goes by; see `Catalogue.bounds`."""

_PARTS = ("admin", "broker", "router", "router.policy")
"""Parts of an infra config that are told field by field."""


class Kept(NamedTuple):
    """A condition and why it does not hold."""

    kind: str
    reason: str
    message: str


def with_kept(resource: Declared, now: datetime) -> Declared:
    """Return a resource whose status says what of its spec is kept and not done."""
    said = {one.kind: one for one in _kept(resource)}
    for kind in (FORWARDERS, PROVIDER, FIELDS):
        one = said.get(kind)
        resource = with_unmet(resource, kind, (one.reason, one.message) if one else None, now)
    return resource


def _kept(resource: Declared) -> Iterator[Kept]:
    if isinstance(resource, Address) and resource.spec.forwarders:
        message = "forwarders are kept and pass no message: no connector is opened here"
        yield Kept(FORWARDERS, "NotServed", message)
    elif isinstance(resource, MessagingUser) and resource.kept_fields:
        fields = ", ".join(f"spec.authentication.{name}" for name in resource.kept_fields)
        message = f"no provider is asked here, the user is known by spec.username alone: {fields}"
        yield Kept(PROVIDER, "NotServed", message)
    elif isinstance(resource, InfraConfig):
        spec = resource.document()["spec"]
        fields = ", ".join(f"spec.{name}" for name in _given(spec) if name not in SERVED)
        if fields:
            yield Kept(FIELDS, "NotServed", f"kept, and without effect here: {fields}")


def _given(document: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the fields that are given, those of the parts one by one."""
    for name, value in document.items():
        path = f"{above}{name}"
        if path in _PARTS and isinstance(value, Mapping):
            yield from _given(value, f"{path}.")
        elif value is not None:
            yield path
