"""What became of a delivery (AMQP 1.0, part 3, 3.4.2 to 3.4.5)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accepted:
    """Taken."""


@dataclass(frozen=True, slots=True)
class Released:
    """Not taken, and untouched: it may go to another receiver."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Invalid for the receiver, whoever it is; `condition` as in `amqp:not-found`."""

    condition: str | None = None
    description: str | None = None

    def __str__(self) -> str:
        said = ": ".join(part for part in (self.condition, self.description) if part)
        return f"rejected ({said})" if said else "rejected"


@dataclass(frozen=True, slots=True)
class Modified:
    """Not taken, and changed: it counts as a failed attempt, or may not come here again."""

    delivery_failed: bool = False
    undeliverable_here: bool = False


Outcome = Accepted | Released | Rejected | Modified
"""Any of the four."""

OutcomeTuple = tuple[str] | tuple[str, str | None, str | None] | tuple[str, bool, bool]
"""An outcome as it crosses to the native core: its name, then its fields in order."""

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
