"""References between addresses: a subscription's topic, dead letters and expiry addresses. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from enmasse.plan.reasons import REMEDIES
from enmasse.resources import Address

_KINDS = (
    ("topic", "topic", "a topic address", "Topic"),
    ("deadletter", "deadletter", "a dead letter address", "Deadletter"),
    ("expiry", "deadletter", "an expiry address", "Expiry"),
)
"""Field of the spec, required type, display name, and prefix of the reason."""


@dataclass(frozen=True, slots=True)
class Dangling:
    """An invalid reference: field, reason, error."""

    field: str
    reason: str
    problem: str

    @property
    def remedy(self) -> str:
        """The remedy of the reason."""
        return REMEDIES[self.reason].text


def dangling(address: Address, named: Callable[[str], Address | None]) -> list[Dangling]:
    """Return the references of an address that are missing or have the wrong type.

    `named` returns the address with a name in the same space.
    """
    found = []
    for field, type_, what, reason in _KINDS:
        name = getattr(address.spec, field)
        if name is None:
            continue
        target = named(name)
        if target is None:
            problem = f"references {what} {name!r} that does not exist"
            found.append(Dangling(field, f"{reason}Missing", problem))
        elif target.spec.type != type_:
            problem = (
                f"references {what} {name!r} ({target.metadata.name}) that is not of type {type_}"
                f" but {target.spec.type}"
            )
            found.append(Dangling(field, f"{reason}WrongType", problem))
    return found
