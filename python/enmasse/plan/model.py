"""The Plan's shape. The node refuses members it does not know: this and the node's move together.

Only what this control plane can ask for is here; the schema in `vectors/plans/schema.json` also has
the members of stored addresses.
"""

from typing import Literal

from enmasse.resources.messaging_user import Operation, Verifier
from enmasse.resources.model import Model

LINK_CAPACITY = 1000
"""Deliveries a producer may have on the way on one link, where nothing else is said."""


class AddressLimits(Model):
    """Bounds of an address."""

    link_capacity: int = LINK_CAPACITY
    """Deliveries a producer may have sent and no consumer taken, on each link."""

    message_size: int | None = None
    """Largest message in bytes; None has no bound."""


class PlannedAddress(Model):
    """One address a node serves."""

    uid: str
    name: str
    type: str
    limits: AddressLimits = AddressLimits()


class Right(Model):
    """Operations on the addresses that a pattern covers."""

    pattern: str
    operations: tuple[Operation, ...]


class PlannedUser(Model):
    """One user a node lets in."""

    name: str
    verifiers: tuple[Verifier, ...] = ()
    rights: tuple[Right, ...] = ()


class Authentication(Model):
    """Who may come into a space."""

    type: Literal["none", "standard"]
    anonymous: bool
    mechanisms: tuple[str, ...]


class SpaceLimits(Model):
    """Bounds of a space on one node; None has no bound."""

    connections: int | None = None
    links: int | None = None


class PlannedSpace(Model):
    """One address space: `names` has the short name and, last, the full one."""

    uid: str
    names: tuple[str, ...]
    authentication: Authentication
    users: tuple[PlannedUser, ...] = ()
    limits: SpaceLimits = SpaceLimits()
    addresses: tuple[PlannedAddress, ...] = ()


class Plan(Model):
    """Everything a node serves. `version` grows with every change."""

    version: int
    spaces: tuple[PlannedSpace, ...] = ()

    def json_text(self) -> str:
        """Return the plan as the node reads it."""
        return self.model_dump_json(by_alias=True)
