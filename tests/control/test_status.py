"""Phase, readiness and messages of a resource."""

from dataclasses import replace

import pytest

from doubles import TestClock, address, space, user
from enmasse.base.errors import Code, Unavailable
from enmasse.control.address import with_losses
from enmasse.control.address_space import with_unnamed
from enmasse.control.reconcilers.status import CHAINS
from enmasse.control.status import Seen, decide
from enmasse.engines import Proof, Unnamed
from enmasse.plan import OutcomeReason
from enmasse.resources import KINDS, Address, AddressSpace, Declared
from enmasse.resources.conditions import INTACT, READY, find

REFUSED = Unavailable(Code.NOT_AVAILABLE, "worker 1 has not answered")
TAKEN = OutcomeReason("AddressTaken", "taken")
GONE = OutcomeReason(
    "DeadletterMissing", "references a dead letter address 'dead' that does not exist"
)


def seen(
    *, active: bool = True, version: int = 1, proven: int | None = 1, refused: bool = False
) -> Seen:
    served = frozenset({"u"} if active else ())
    return Seen(
        version=version,
        excluded={address("default.again").key: TAKEN},
        waiting={address("default.dangling").key: GONE},
        proof=None if proven is None else Proof(proven, served),
        refusal=REFUSED if refused else None,
        now=TestClock().now(),
    )


def made(resource: Declared) -> Declared:
    return resource.with_metadata(uid="u", generation=3)


CASES = {
    "proven": (address(), seen(), "Active", "Served"),
    "a space is in force with the plan": (space(), seen(active=False), "Active", "Served"),
    "left out of the plan": (address("default.again"), seen(), "Pending", "AddressTaken"),
    "plan refused": (address(), seen(refused=True), "Configuring", "PlanRefused"),
    "no answer yet": (space(), seen(proven=None), "Configuring", "PlanNotApplied"),
    "an older plan served": (address(), seen(version=2), "Configuring", "PlanNotApplied"),
    "a newer plan served": (address(), seen(proven=2), "Active", "Served"),
    "not named as active": (address(), seen(active=False), "Configuring", "NotActive"),
    "served, but what it names is gone": (
        address("default.dangling"),
        seen(),
        "Pending",
        "DeadletterMissing",
    ),
    "what it names is gone, and it is not served": (
        address("default.dangling"),
        seen(active=False),
        "Configuring",
        "NotActive",
    ),
    "a user is in force with the plan": (user(), seen(active=False), "Active", "Served"),
    "a user before the plan": (user(), seen(proven=None), "Configuring", "PlanNotApplied"),
}


@pytest.mark.parametrize("name", CASES)
def test_first_finding_of_the_chain_decides_the_phase(name: str) -> None:
    resource, what, phase, reason = CASES[name]
    status = decide(made(resource), what, CHAINS[resource.kind])
    assert status.phase == phase
    assert status.is_ready is (phase == "Active")
    condition = find(status.conditions, READY)
    assert condition is not None
    assert condition.reason == reason
    assert condition.observed_generation == 3
    assert bool(status.messages) is (phase != "Active")


def test_ready_resource_with_a_refused_plan_is_failed() -> None:
    ready = made(address())
    ready = ready.with_status(decide(ready, seen(), CHAINS["Address"]))
    assert decide(ready, seen(refused=True), CHAINS["Address"]).phase == "Failed"


def test_user_status_has_its_messages_as_one_text_too() -> None:
    resource = made(user())
    refused = resource.with_status(decide(resource, seen(refused=True), CHAINS["MessagingUser"]))
    status = refused.document()["status"]
    assert status["message"] == "; ".join(status["messages"]) != ""
    served = refused.with_status(decide(refused, seen(), CHAINS["MessagingUser"]))
    assert "message" not in served.document()["status"]


def test_every_declared_kind_has_a_status_chain() -> None:
    declared = {name for name, model in KINDS.items() if issubclass(model, Declared)}
    assert set(CHAINS) == declared


def test_address_status_counts_lost_messages() -> None:
    resource = made(address())
    assert isinstance(resource, Address)
    proof = Proof(1, frozenset({"u"}), damaged={"u": 1200})
    told = with_losses(resource, replace(seen(), proof=proof))
    condition = find(told.status.conditions, INTACT)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "MessagesLost")
    assert "1,200 messages" in condition.message
    assert find(with_losses(told, seen()).status.conditions, INTACT) is None
    assert proof.differing(seen().proof) == {"u"}


def test_space_status_counts_messages_without_a_declared_address() -> None:
    resource = made(space())
    assert isinstance(resource, AddressSpace)
    told = with_unnamed(resource, Unnamed(1200, 3), seen().now)
    condition = find(told.status.conditions, INTACT)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "MessagesUnnamed")
    assert "1,200 stored messages" in condition.message and "in 3 files" in condition.message
    assert find(with_unnamed(told, Unnamed(), seen().now).status.conditions, INTACT) is None
