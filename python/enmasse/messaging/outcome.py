"""Outcomes of a delivery (AMQP 1.0, part 3, 3.4.2 to 3.4.5)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accepted:
    """The message was processed (3.4.2)."""


@dataclass(frozen=True, slots=True)
class Released:
    """Not processed and unchanged: it may go to another receiver (3.4.4)."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Invalid and unprocessable (3.4.3); `condition` is a symbol such as `amqp:not-found`."""

    condition: str | None = None
    description: str | None = None

    def __str__(self) -> str:
        details = ": ".join(part for part in (self.condition, self.description) if part)
        return f"rejected ({details})" if details else "rejected"


@dataclass(frozen=True, slots=True)
class Modified:
    """Not processed and modified: it counts as a failed attempt, or may not return here (3.4.5)."""

    delivery_failed: bool = False
    undeliverable_here: bool = False


Outcome = Accepted | Released | Rejected | Modified
"""Any of the four."""

OutcomeTuple = tuple[str] | tuple[str, str | None, str | None] | tuple[str, bool, bool]
"""An outcome for the native core: its name, then its fields in order."""

KINDS: dict[str, type[Outcome]] = {
    "accepted": Accepted,
    "released": Released,
    "rejected": Rejected,
    "modified": Modified,
}


def name_of(outcome: Outcome) -> str:
    """The standard's name of an outcome."""
    return type(outcome).__name__.lower()


def to_tuple(outcome: Outcome) -> OutcomeTuple:
    """An outcome for the native core."""
    match outcome:
        case Rejected(condition, description):
            return ("rejected", condition, description)
        case Modified(delivery_failed, undeliverable_here):
            return ("modified", delivery_failed, undeliverable_here)
        case _:
            return (name_of(outcome),)


def from_tuple(crossed: OutcomeTuple) -> Outcome:
    """An outcome from the native core."""
    name, *fields = crossed
    return KINDS[name](*fields)
