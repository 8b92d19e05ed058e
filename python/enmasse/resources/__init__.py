"""The kinds of resources: schema, validation and status. No I/O.

A document arrives as text or plain data (`load`, `parse`) and becomes a frozen model, or an
`Invalid` that names every invalid field. Rules that involve other resources (the space exists, the
address is unique) are in `enmasse.control`.
"""

from enmasse.base.kinds import API_VERSION
from enmasse.resources.address import Address, AddressSpec
from enmasse.resources.address_plan import AddressPlan
from enmasse.resources.address_space import AddressSpace, AddressSpaceSpec
from enmasse.resources.address_space_plan import AddressSpacePlan
from enmasse.resources.address_space_schema import AddressSpaceSchema
from enmasse.resources.authentication_service import AuthenticationService
from enmasse.resources.core import ConfigMap, Event, Namespace, Secret, Service
from enmasse.resources.documents import KINDS, in_order, invalid, load, one_document, parse, pruned
from enmasse.resources.infra_config import BrokeredInfraConfig, StandardInfraConfig
from enmasse.resources.messaging_node import MessagingNode
from enmasse.resources.messaging_user import MessagingUser, MessagingUserSpec, Verifier
from enmasse.resources.model import (
    DEFAULT_NAMESPACE,
    Condition,
    Declared,
    Key,
    Metadata,
    Resource,
    Status,
)
from enmasse.resources.pipeline import Pipeline

__all__ = [
    "API_VERSION",
    "DEFAULT_NAMESPACE",
    "KINDS",
    "Address",
    "AddressPlan",
    "AddressSpace",
    "AddressSpacePlan",
    "AddressSpaceSchema",
    "AddressSpaceSpec",
    "AddressSpec",
    "AuthenticationService",
    "BrokeredInfraConfig",
    "Condition",
    "ConfigMap",
    "Declared",
    "Event",
    "Key",
    "MessagingNode",
    "MessagingUser",
    "MessagingUserSpec",
    "Metadata",
    "Namespace",
    "Pipeline",
    "Resource",
    "Secret",
    "Service",
    "StandardInfraConfig",
    "Status",
    "Verifier",
    "in_order",
    "invalid",
    "load",
    "one_document",
    "parse",
    "pruned",
]
