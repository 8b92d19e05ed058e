"""StandardInfraConfig and BrokeredInfraConfig: what the messaging below an address space is like.

What is about pods (resources, templates, replicas, disruption, network policy) is kept as it is and
counts on a cluster only. Of the rest, `Catalogue.bounds` says what a node goes by.
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
"""What Kubernetes has a schema for."""

CountOrShare = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A number of pods, or a share of them: `1` or `50%`."""

_SIZE = re.compile(r"(\d{1,15})\s*([kmg]?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3}


def size_bytes(text: str) -> int:
    """Return the bytes that a size like `64Mb` stands for.

    Raises: ValueError if it is none.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a size; write bytes, or a number with K, MB or GB")
    return int(found[1]) << (10 * _POWERS[found[2].lower()])


def _size(text: str) -> str:
    size_bytes(text)
    return text


class NetworkPolicy(Model):
    """Who may reach the pods, and whom they may reach."""

    ingress: tuple[Anything, ...] | None = None
    egress: tuple[Anything, ...] | None = None


class PodResources(Model):
    """What a pod gets."""

    cpu: str | None = None
    memory: str | None = None


class BrokerPodResources(PodResources):
    """What the pod of a broker gets."""

    storage: str | None = None


class Probe(Model):
    """How often it is asked whether a container lives."""

    initial_delay_seconds: int | None = None
    timeout_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None


class Variable(Model):
    """A variable of a container's environment."""

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
    """Marks of a pod."""

    labels: dict[str, str] = Field(default_factory=dict)


class PodTemplateSpec(Model):
    """What a pod is like."""

    affinity: Anything | None = None
    tolerations: tuple[Anything, ...] = ()
    priority_class_name: str | None = None
    security_context: Anything | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class PodTemplate(Model):
    """What pods are made from."""

    metadata: PodTemplateMetadata | None = None
    spec: PodTemplateSpec | None = None


class AdminPart(Model):
    """The pods that look after a space."""

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
    """What a full address does: FAIL and DROP refuse messages, BLOCK makes senders wait, PAGE has
    no bound, because messages are on disk. FAIL if left out."""

    global_max_size: Annotated[str, AfterValidator(_size)] | None = None
    """Bytes of messages that one broker holds, as `64MB`; an address gets its credit's share of
    them. Left out: no bound."""


class StandardBrokerPart(BrokerPart):
    """Brokers of a standard space."""

    connector_idle_timeout: int | None = None
    connector_worker_threads: int | None = None
    min_large_message_size: int | None = None
    treat_reject_as_unmodified_delivery_failed: bool | None = None
    """What addresses go by that do not say it themselves."""

    use_modified_for_transient_delivery_errors: bool | None = None
    min_available: CountOrShare | None = None
    max_unavailable: CountOrShare | None = None


class RouterPolicy(Model):
    """Bounds of one router."""

    max_connections: LinkCount | None = None
    """Connections at a time."""

    max_connections_per_user: LinkCount | None = None
    max_connections_per_host: LinkCount | None = None
    max_sessions_per_connection: LinkCount | None = None
    max_senders_per_connection: LinkCount | None = None
    max_receivers_per_connection: LinkCount | None = None
    max_message_size: MessageSize | None = None
    """Bytes of one message."""


class RouterPart(Model):
    """Routers of a standard space."""

    resources: PodResources | None = None
    pod_template: PodTemplate | None = None
    min_replicas: int | None = None
    link_capacity: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    """Deliveries that a sender may have on the way on one link; 1000 if left out."""

    handshake_timeout: int | None = None
    idle_timeout: int | None = None
    worker_threads: int | None = None
    min_available: CountOrShare | None = None
    max_unavailable: CountOrShare | None = None
    policy: RouterPolicy | None = None
    """Bounds of one router."""


class InfraConfig(Administered):
    """What both kinds share."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("Version", "spec.version"),
        Column("Phase", "status.phase", priority=1),
        AGE,
    )

    api_version: str = ADMIN_VERSION


class StandardInfraConfigSpec(Model):
    """What standard spaces are like."""

    version: str | None = None
    network_policy: NetworkPolicy | None = None
    global_dlq: bool | None = Field(default=None, alias="globalDLQ")
    admin: AdminPart | None = None
    """The pods that look after a space."""

    broker: StandardBrokerPart | None = None
    """Brokers."""

    router: RouterPart | None = None
    """Routers."""


class StandardInfraConfig(InfraConfig):
    """What the messaging below standard spaces is like."""

    kind: Literal["StandardInfraConfig"] = Field(default="StandardInfraConfig")
    spec: StandardInfraConfigSpec


class BrokeredInfraConfigSpec(Model):
    """What brokered spaces are like."""

    version: str | None = None
    network_policy: NetworkPolicy | None = None
    admin: AdminPart | None = None
    """The pods that look after a space."""

    broker: BrokerPart | None = None
    """The broker."""


class BrokeredInfraConfig(InfraConfig):
    """What the messaging below brokered spaces is like."""

    kind: Literal["BrokeredInfraConfig"] = Field(default="BrokeredInfraConfig")
    spec: BrokeredInfraConfigSpec
