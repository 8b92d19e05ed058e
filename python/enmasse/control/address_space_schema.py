"""The choices of tenants, generated from the present plans and services. Pure."""

from enmasse.plan import Catalogue
from enmasse.resources import AddressSpaceSchema
from enmasse.resources.address import PlanResources
from enmasse.resources.address_space import ADDRESS_TYPES
from enmasse.resources.address_space_schema import (
    AddressPlanChoice,
    AddressSpaceSchemaMetadata,
    AddressSpaceSchemaSpec,
    AddressTypeChoice,
    Described,
    RouteServicePort,
    SpacePlanChoice,
)

DESCRIPTIONS = {
    "standard": "Direct and stored addresses of every type, for any number of clients.",
    "brokered": "Queues, topics and subscriptions, as a single message broker has them.",
}
"""Descriptions of the address space types."""

ADDRESS_DESCRIPTIONS = {
    "anycast": "Each message goes directly to one of the receivers.",
    "multicast": "Each message goes directly to every receiver.",
    "queue": "Messages are stored until one of the receivers has accepted them.",
    "topic": "Messages are stored for each subscription.",
    "subscription": ("A named queue of a topic with its own copy of each message."),
    "deadletter": "Messages that failed or expired.",
}
"""Descriptions of the address types."""


CERTIFICATE_PROVIDERS = (
    Described(name="selfsigned", description="Signed by the CA of the space."),
    Described(name="certBundle", description="The tenant's own."),
    Described(name="wildcard", description=("The node's certificate, if it contains the host.")),
    Described(
        name="openshift", description=("OpenShift is not supported; signed by the CA of the space.")
    ),
)
"""Certificate providers of endpoints."""

EXPOSE_TYPES = (
    Described(
        name="route", description=("By a host name that resolves to the listeners of the node.")
    ),
    Described(name="loadbalancer", description="By the listeners of the node directly."),
)
"""Ways to expose an endpoint."""

ROUTE_SERVICE_PORTS = tuple(
    RouteServicePort(
        name=name, description=description, route_tls_terminations=("passthrough", "reencrypt")
    )
    for name, description in (
        ("amqps", "AMQP over TLS."),
        ("https", "AMQP over WebSocket and TLS."),
    )
)
"""Target ports of a route."""


def schemas(catalogue: Catalogue) -> list[AddressSpaceSchema]:
    """Return one schema per address space type."""
    return [_schema(catalogue, type_) for type_ in DESCRIPTIONS]


def _schema(catalogue: Catalogue, type_: str) -> AddressSpaceSchema:
    plans = catalogue.space_plans_of(type_)
    # Address plans that no space plan of the type offers cannot be chosen in such a space.
    offered = {name for plan in plans for name in plan.spec.address_plans}
    return AddressSpaceSchema(
        metadata=AddressSpaceSchemaMetadata(name=type_),
        spec=AddressSpaceSchemaSpec(
            description=DESCRIPTIONS[type_],
            address_types=tuple(
                AddressTypeChoice(
                    name=address_type,
                    description=ADDRESS_DESCRIPTIONS[address_type],
                    plans=_choices(catalogue, address_type, offered),
                )
                for address_type in ADDRESS_TYPES[type_]
            ),
            plans=tuple(
                SpacePlanChoice(
                    name=plan.metadata.name,
                    display_name=plan.spec.display_name,
                    description=plan.spec.short_description,
                    address_plans=plan.spec.address_plans,
                    resource_limits=plan.spec.resource_limits,
                    limits=plan.spec.limits,
                )
                for plan in plans
            ),
            authentication_services=tuple(sorted(catalogue.authentications)),
            certificate_provider_types=CERTIFICATE_PROVIDERS,
            endpoint_expose_types=EXPOSE_TYPES,
            route_service_ports=ROUTE_SERVICE_PORTS,
        ),
    )


def _choices(
    catalogue: Catalogue, address_type: str, offered: set[str]
) -> tuple[AddressPlanChoice, ...]:
    plans = [
        plan
        for name, plan in catalogue.address_plans.items()
        if name in offered and plan.spec.address_type == address_type
    ]
    return tuple(
        AddressPlanChoice(
            name=plan.metadata.name,
            display_name=plan.spec.display_name,
            description=plan.spec.short_description,
            resources=plan.spec.resources or PlanResources(),
            partitions=plan.spec.partitions,
            message_ttl=plan.spec.message_ttl,
            message_redelivery=plan.spec.message_redelivery,
            limits=plan.spec.limits,
        )
        for plan in sorted(plans, key=lambda plan: plan.order)
    )
