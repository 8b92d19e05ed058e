"""Remedies for the reasons why an address is not served. Pure.

The compiler and the checks of `control/status.py` produce the reasons. Conditions show them,
admission adds the remedy to its refusals, and `enmasse doctor` reports it.
"""

from typing import NamedTuple


class Remedy(NamedTuple):
    """The remedy of a reason, and the part of an address that the reason concerns."""

    about: str
    text: str


_CHOOSE = Remedy("plan", "choose an offered plan with enmasse edit address {address}")
_ROOM = Remedy(
    "quota",
    "delete addresses, choose smaller plans, or a larger plan for the space (enmasse plan usage)",
)
_DECLARE = Remedy("references", "declare it first, or name another")
_DEAD_LETTERS = Remedy("references", "name one of type deadletter")

REMEDIES: dict[str, Remedy] = {
    "AddressTaken": Remedy("name", "delete one of the two; the older one is served"),
    **dict.fromkeys(("TypeNotOffered", "PlanUnknown", "PlanWrongType", "PlanNotOffered"), _CHOOSE),
    **dict.fromkeys(("QuotaExceeded", "ReferenceWaits"), _ROOM),
    **dict.fromkeys(("TopicMissing", "DeadletterMissing", "ExpiryMissing"), _DECLARE),
    "TopicWrongType": Remedy("references", "name one of type topic"),
    **dict.fromkeys(("DeadletterWrongType", "ExpiryWrongType"), _DEAD_LETTERS),
    "PlanRefused": Remedy("control", "run enmasse logs --level warning for the reason"),
    **dict.fromkeys(
        ("PlanNotApplied", "NotActive"),
        Remedy("control", "wait; if it persists, check enmasse logs"),
    ),
}
"""The remedies by reason."""
