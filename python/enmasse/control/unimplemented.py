"""Reports parts of a resource that are stored but not implemented, as conditions with status False.
Pure.
"""

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
"""Fields of infra configs that take effect; see `Catalogue.bounds`."""

_PARTS = ("admin", "broker", "router", "router.policy")
"""Parts of an infra config that are reported field by field."""


class UnimplementedPart(NamedTuple):
    """A condition and its reason."""

    kind: str
    reason: str
    message: str


def with_unimplemented(resource: Declared, now: datetime) -> Declared:
    """Return a resource whose status reports its unimplemented parts."""
    parts_by_kind = {one.kind: one for one in _unimplemented_parts(resource)}
    for kind in (FORWARDERS, PROVIDER, FIELDS):
        one = parts_by_kind.get(kind)
        resource = with_unmet(resource, kind, (one.reason, one.message) if one else None, now)
    return resource


def _unimplemented_parts(resource: Declared) -> Iterator[UnimplementedPart]:
    if isinstance(resource, Address) and resource.spec.forwarders:
        message = "forwarders are stored but not implemented"
        yield UnimplementedPart(FORWARDERS, "NotServed", message)
    elif isinstance(resource, MessagingUser) and resource.kept_fields:
        fields = ", ".join(f"spec.authentication.{name}" for name in resource.kept_fields)
        message = f"stored but not implemented; the user is identified by spec.username: {fields}"
        yield UnimplementedPart(PROVIDER, "NotServed", message)
    elif isinstance(resource, InfraConfig):
        spec = resource.document()["spec"]
        fields = ", ".join(f"spec.{name}" for name in _given(spec) if name not in SERVED)
        if fields:
            yield UnimplementedPart(
                FIELDS, "NotServed", f"stored without effect on a single node: {fields}"
            )


def _given(document: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the fields that are set; those of the parts individually."""
    for name, value in document.items():
        path = f"{above}{name}"
        if path in _PARTS and isinstance(value, Mapping):
            yield from _given(value, f"{path}.")
        elif value is not None:
            yield path
