"""The declared state and its overlays equal a state rebuilt from the same resources."""

import base64
import random
from collections.abc import Iterable, Mapping

import pytest

from doubles import address, address_plan, infra, queue, space, space_plan, user
from enmasse.plan import Declarations, DeclaredState, Overlay
from enmasse.plan.declared import group_of, home_of, served_names, unique_names
from enmasse.resources import Key, Resource, Secret, Status
from enmasse.resources.core import NamedMetadata

PLAN = address_plan("large", "queue", router=0.01, broker=1)


def secret(name: str, size: int) -> Secret:
    data = {"password": base64.b64encode(b"x" * size).decode()}
    return Secret(metadata=NamedMetadata(name=name, namespace="default"), data=data)


FORMS: tuple[tuple[Resource, ...], ...] = (
    (space("a"), space("a", plan="small")),
    (space("b"), space("b", authentication="none")),
    (address("a.one"), address("a.one", address="x"), queue("a.one", plan="large")),
    (address("a.two", address="x"), queue("a.two", deadletter="gone")),
    (address("b.one"), queue("b.one", plan="large")),
    (user("a.alice"), user("a.alice", password=None)),
    (user("b.bob"),),
    (secret("s", 10), secret("s", 500)),
    (PLAN, address_plan("large", "queue", router=0.5, broker=1)),
    (space_plan("small", [PLAN]),),
    (infra(),),
)
"""Variants of a few resources that contest names and refer to each other."""

EVERY = [form for forms in FORMS for form in forms]
NAMES = {name for one in EVERY for name in (*unique_names(one), *served_names(one))}
CHOICES = (("AddressPlan", "large"), ("AddressSpacePlan", "small"))


def answers(state: Declarations) -> dict[str, object]:
    """Every query of a state."""
    homes = {home_of(one) for one in EVERY}
    return {
        "resources": {one.key: state.get(one.key) for one in EVERY},
        "owners": {name: set(state.owners(name)) for name in NAMES},
        "users": {home: state.users(home) for home in homes},
        "spaces": set(state.spaces()),
        "using": {choice: set(state.using(*choice)) for choice in CHOICES},
        "choices": {home: +state.choices(home) for home in homes},
        "held": {group_of(one.key): state.held(group_of(one.key)) for one in EVERY},
        "plans": dict(state.chosen_from()),
        "offered": set(state.catalogue.address_plans),
    }


def changes(dice: random.Random, count: int) -> dict[Key, Resource | None]:
    """Random resources, created, changed or deleted."""
    found: dict[Key, Resource | None] = {}
    for forms in dice.sample(FORMS, count):
        form = dice.choice(forms)
        found[form.key] = form if dice.random() < 0.7 else None
    return found


def merged(
    before: Mapping[Key, Resource], changed: Mapping[Key, Resource | None]
) -> dict[Key, Resource]:
    after = {**before, **changed}
    return {key: one for key, one in after.items() if one is not None}


def made(resources: Iterable[Resource]) -> dict[str, object]:
    return answers(DeclaredState(resources))


@pytest.mark.parametrize("seed", range(200))
def test_state_with_overlays_equals_a_rebuilt_state(seed: int) -> None:
    dice = random.Random(seed)
    state, now = DeclaredState(), dict[Key, Resource]()
    for _ in range(5):
        some = changes(dice, 4)
        for key, resource in some.items():
            state.put(key, resource)
        now = merged(now, some)
    assert answers(state) == made(now.values())
    first, second = changes(dice, 3), changes(dice, 3)
    batch = Overlay(state, first)
    assert answers(batch) == made(merged(now, first).values())
    request = Overlay(batch, second)
    after = merged(merged(now, first), second)
    assert answers(request) == made(after.values())
    for key, resource in changes(dice, 2).items():
        request.put(key, resource)
        after = merged(after, {key: resource})
    assert answers(request) == made(after.values())
    assert answers(state) == made(now.values()), "an overlay changes nothing below it"


def test_restate_replaces_the_resource_without_notifying_followers() -> None:
    state = DeclaredState([space("a"), address("a.one")])
    told: list[Key] = []
    state.follow(lambda key, before, now: told.append(key))
    served = address("a.one").with_status(Status(phase="Active", is_ready=True))
    before = answers(state)
    state.restate(served)
    assert state.get(served.key) is served
    assert state.members(("default", "a")).addresses[served.key] is served
    assert told == []
    assert {**answers(state), "resources": None} == {**before, "resources": None}


def test_deleting_the_last_resource_of_a_space_removes_its_home() -> None:
    state = DeclaredState([address("a.one")])
    assert list(state.homes()) == [("default", "a")]
    state.put(address("a.one").key, None)
    assert list(state.homes()) == []
    assert state.held(("Address", "default")).resources == 0
