"""How clients log in to an address space, and what users may do, in the node's form. Pure."""

from enmasse.plan.catalogue import Catalogue
from enmasse.plan.declared import Declarations, home_of
from enmasse.plan.model import EVERY_NAME, Authentication, PlannedUser, Right
from enmasse.resources import AddressSpace, AuthenticationService, MessagingUser

STANDARD_MECHANISMS = ("EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""SASL mechanisms of a closed space, strongest first. The node offers EXTERNAL only to a client
with a certificate, and PLAIN only on protected transports.
"""

OPEN_MECHANISMS = ("PLAIN",)
"""Mechanisms of an open space in addition to ANONYMOUS."""

BEARER_MECHANISMS = ("OAUTHBEARER", "XOAUTH2")
"""Mechanisms with a token issuer."""

DELEGATED_MECHANISMS = (*BEARER_MECHANISMS, "PLAIN")
"""Mechanisms with an external authentication service."""


def kind_of(space: AddressSpace, users: int, catalogue: Catalogue, *, exposed: bool) -> str:
    """Return how clients of a space with `users` users authenticate; `none` admits everyone.

    `exposed`: other machines can reach a listener unintentionally.
    """
    return space.authentication(
        has_users=users > 0, services=catalogue.authentications, exposed=exposed
    )


def open_spaces(declared: Declarations, *, exposed: bool) -> list[AddressSpace]:
    """Return the spaces that admit every client."""
    catalogue = declared.catalogue
    found = [declared.get(key) for key in sorted(declared.spaces())]
    return [
        space
        for space in found
        if isinstance(space, AddressSpace)
        and kind_of(space, declared.users(home_of(space)), catalogue, exposed=exposed) == "none"
    ]


def authentication(
    kind: str, space: AddressSpace, service: AuthenticationService | None
) -> Authentication:
    """Return the mechanisms of a space, by the type of its service. `service`: if declared."""
    if kind == "none":
        return Authentication(type="none", anonymous=True, mechanisms=OPEN_MECHANISMS)
    service_id = _service_id(space, service)
    if kind != "standard":
        return Authentication(
            type="delegated", anonymous=False, mechanisms=DELEGATED_MECHANISMS, service=service_id
        )
    mechanisms: tuple[str, ...] = STANDARD_MECHANISMS
    if service is None or service.spec.standard is None or service.spec.standard.oidc is None:
        service_id = None
    else:
        mechanisms = (*mechanisms[:-1], *BEARER_MECHANISMS, mechanisms[-1])
    return Authentication(
        type="standard", anonymous=False, mechanisms=mechanisms, service=service_id
    )


def _service_id(space: AddressSpace, service: AuthenticationService | None) -> str | None:
    """Identify the service, and by its generation the settings that its answers depend on."""
    if service is None:
        return None
    metadata = service.metadata
    service_id = f"{metadata.namespace}/{metadata.name}/{metadata.uid}/{metadata.generation}"
    return service_id if space.overrides is None else f"{service_id}/{space.metadata.generation}"


def planned_user(user: MessagingUser) -> PlannedUser:
    """Return a user in the node's form."""
    return PlannedUser(
        name=user.spec.username,
        verifiers=user.spec.authentication.verifiers,
        rights=rights_of(user),
    )


def rights_of(user: MessagingUser) -> tuple[Right, ...]:
    """Return one right per address pattern; an authorization without addresses applies to all."""
    return tuple(
        Right(pattern=pattern, operations=authorization.operations)
        for authorization in user.spec.authorization
        for pattern in authorization.addresses or (EVERY_NAME,)
    )
