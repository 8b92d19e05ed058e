"""The names of resource kinds: in paths of the API, in documents, in commands.

The models of `enmasse.resources` take their names from here. A command that processes plain
documents imports only this module, and saves the second that building the models takes.
"""

from typing import NamedTuple

API_VERSION = "enmasse.io/v1beta1"
ADMIN_VERSION = "admin.enmasse.io/v1beta1"
PLAN_VERSIONS = ("admin.enmasse.io/v1beta2", ADMIN_VERSION)
USER_VERSION = "user.enmasse.io/v1beta1"
CORE_VERSION = "v1"


class Kind(NamedTuple):
    """The names of a kind of resource."""

    name: str
    """The kind, as in documents."""

    plural: str
    """The plural, as in HTTP paths."""

    short_names: tuple[str, ...] = ()
    """Abbreviations for the command line."""

    namespaced: bool = True
    """Whether it belongs to a namespace."""

    unique: bool = False
    """Whether a name is unique across namespaces."""

    api_versions: tuple[str, ...] = (API_VERSION,)
    """The accepted values of `apiVersion`; each is served, and the first one is stored."""


KINDS = {
    kind.name: kind
    for kind in (
        Kind("Namespace", "namespaces", ("ns",), namespaced=False, api_versions=(CORE_VERSION,)),
        Kind("Secret", "secrets", api_versions=(CORE_VERSION,)),
        Kind("ConfigMap", "configmaps", ("cm",), api_versions=(CORE_VERSION,)),
        Kind("Service", "services", ("svc",), api_versions=(CORE_VERSION,)),
        Kind(
            "StandardInfraConfig",
            "standardinfraconfigs",
            unique=True,
            api_versions=(ADMIN_VERSION,),
        ),
        Kind(
            "BrokeredInfraConfig",
            "brokeredinfraconfigs",
            unique=True,
            api_versions=(ADMIN_VERSION,),
        ),
        Kind("AddressPlan", "addressplans", unique=True, api_versions=PLAN_VERSIONS),
        Kind("AddressSpacePlan", "addressspaceplans", unique=True, api_versions=PLAN_VERSIONS),
        Kind(
            "AuthenticationService",
            "authenticationservices",
            unique=True,
            api_versions=(ADMIN_VERSION,),
        ),
        Kind(
            "MessagingNode",
            "messagingnodes",
            ("mn",),
            unique=True,
            api_versions=(ADMIN_VERSION,),
        ),
        Kind("AddressSpace", "addressspaces", ("as",)),
        Kind("Address", "addresses", ("addr",)),
        Kind("MessagingUser", "messagingusers", ("mu",), api_versions=(API_VERSION, USER_VERSION)),
        Kind("Pipeline", "pipelines", ("pl",)),
        Kind("AddressSpaceSchema", "addressspaceschemas", namespaced=False),
        Kind("Event", "events", ("ev",), api_versions=(CORE_VERSION,)),
    )
}
"""The kinds by name."""

STORED = ("queue", "topic", "subscription", "deadletter")
"""Types of addresses that store messages."""
