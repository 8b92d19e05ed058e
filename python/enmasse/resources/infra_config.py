"""StandardInfraConfig and BrokeredInfraConfig: infrastructure settings of address spaces.

Pod settings (resources, templates, replicas, disruption, network policy) are stored unchanged and
have an effect on a cluster only. `Catalogue.bounds` has the others, which a node applies.
"""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from enmasse.base.kinds import ADMIN_VERSION
from enmasse.resources.model import (
    AGE,
    Administered,
    Column,
    Model,
)
from enmasse.resources.quantities import LinkCount, MessageSize

Anything = dict[str, Any]
"""An object with a Kubernetes schema."""

CountOrShare = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A number of pods, or a percentage of them: `1` or `50%`."""

_SIZE = re.compile(r"(\d{1,15})\s*([kmg]?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3}


def size_bytes(text: str) -> int:
    """Return the bytes of a size such as `64Mb`.

    Raises: ValueError if it is malformed.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a size; write bytes, or a number with K, MB or GB")
    return int(found[1]) << (10 * _POWERS[found[2].lower()])


def _size(text: str) -> str:
    size_bytes(text)
    return text


class NetworkPolicy(Model):
    """Network policy of the pods."""

    ingress: tuple[Anything, ...] | None = None
    egress: tuple[Anything, ...] | None = None


class PodResources(Model):
    """Resources of a pod."""

    cpu: str | None = None
    memory: str | None = None


class BrokerPodResources(PodResources):
    """Resources of the pod of a broker."""

    storage: str | None = None


class Probe(Model):
    """Settings of a container probe."""

    initial_delay_seconds: int | None = None
    timeout_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None


class Variable(Model):
    """An environment variable of a container."""

    name: str
    value: str | None = None
    value_from: Anything | None = None


class Container(Model):
    """A container of a pod."""

    name: str
    resources: Anything | None = None
    env: tuple[Variable, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None


class PodTemplateMetadata(Model):
    """Metadata of a pod."""

    labels: dict[str, str] = Field(default_factory=dict)


class PodTemplateSpec(Model):
    """Specification of a pod."""

    affinity: Anything | None = None
    tolerations: tuple[Anything, ...] = ()
    priority_class_name: str | None = None
    security_context: Anything | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class PodTemplate(Model):
    """Template of pods."""

    metadata: PodTemplateMetadata | None = None
    spec: PodTemplateSpec | None = None


class AdminPart(Model):
    """Pods that administer a space."""

    resources: PodResources | None = None
    pod_template: PodTemplate | None = None


class BrokerPart(Model):
    """Brokers of a brokered space."""

    resources: BrokerPodResources | None = None
    pod_template: PodTemplate | None = None
    storage_class_name: str | None = None
    update_persistent_volume_claim: bool | None = None
    java_opts: str | None = None
    address_full_policy: Literal["PAGE", "BLOCK", "FAIL", "DROP"] | None = None
    """Behaviour of a full address: FAIL and DROP refuse messages, BLOCK makes senders wait, PAGE
    has no limit, because messages are on disk. Default: FAIL."""

    global_max_size: Annotated[str, AfterValidator(_size)] | None = None
    """Maximum message bytes of one broker, such as `64MB`; an address gets a share of them by its
    credit. Absent: unlimited."""


class StandardBrokerPart(BrokerPart):
    """Brokers of a standard space."""

    connector_idle_timeout: int | None = None
    connector_worker_threads: int | None = None
    min_large_message_size: int | None = None
    treat_reject_as_unmodified_delivery_failed: bool | None = None
    """Default of addresses without this setting."""

    use_modified_for_transient_delivery_errors: bool | None = None
    min_available: CountOrShare | None = None
    max_unavailable: CountOrShare | None = None


class RouterPolicy(Model):
    """Limits of one router."""

    max_connections: LinkCount | None = None
    """Maximum concurrent connections."""

    max_connections_per_user: LinkCount | None = None
    max_connections_per_host: LinkCount | None = None
    max_sessions_per_connection: LinkCount | None = None
    max_senders_per_connection: LinkCount | None = None
    max_receivers_per_connection: LinkCount | None = None
    max_message_size: MessageSize | None = None
    """Maximum message size in bytes."""


class RouterPart(Model):
    """Routers of a standard space."""

    resources: PodResources | None = None
    pod_template: PodTemplate | None = None
    min_replicas: int | None = None
    link_capacity: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    """Maximum deliveries in flight of a sender on one link. Default: 1000."""

    handshake_timeout: int | None = None
    idle_timeout: int | None = None
    worker_threads: int | None = None
    min_available: CountOrShare | None = None
    max_unavailable: CountOrShare | None = None
    policy: RouterPolicy | None = None
    """Limits of one router."""


class InfraConfig(Administered):
    """Common part of both kinds."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("Version", "spec.version"),
        Column("Phase", "status.phase", priority=1),
        AGE,
    )

    api_version: str = ADMIN_VERSION


class StandardInfraConfigSpec(Model):
    """Settings of standard spaces."""

    version: str | None = None
    network_policy: NetworkPolicy | None = None
    global_dlq: bool | None = Field(default=None, alias="globalDLQ")
    admin: AdminPart | None = None
    """Pods that administer a space."""

    broker: StandardBrokerPart | None = None
    """Brokers."""

    router: RouterPart | None = None
    """Routers."""


class StandardInfraConfig(InfraConfig):
    """Infrastructure settings of standard spaces."""

    kind: Literal["StandardInfraConfig"] = Field(default="StandardInfraConfig")
    spec: StandardInfraConfigSpec


class BrokeredInfraConfigSpec(Model):
    """Settings of brokered spaces."""

    version: str | None = None
    network_policy: NetworkPolicy | None = None
    admin: AdminPart | None = None
    """Pods that administer a space."""

    broker: BrokerPart | None = None
    """The broker."""


class BrokeredInfraConfig(InfraConfig):
    """Infrastructure settings of brokered spaces."""

    kind: Literal["BrokeredInfraConfig"] = Field(default="BrokeredInfraConfig")
    spec: BrokeredInfraConfigSpec
