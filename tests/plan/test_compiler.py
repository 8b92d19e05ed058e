"""The compiler of resources to a Plan, against the vectors that the node also reads."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from doubles import address, deadletter, queue, space, subscription, topic, user
from enmasse.plan import Compiler, DeclaredState, compile, open_spaces
from enmasse.plan.login import BEARER_MECHANISMS, STANDARD_MECHANISMS
from enmasse.resources import Address, Key, MessagingUser, Resource, Verifier, parse
from enmasse.resources.messaging_user import WILDCARDS_MAX, Authorization

VECTORS = Path(__file__).parents[2] / "vectors"


def stored(name: str) -> list[Any]:
    text = (VECTORS / "resources" / f"{name}.yaml").read_text()
    return [parse(document, stored=True) for document in yaml.safe_load_all(text)]


@pytest.mark.parametrize(("name", "version"), [("shop", 12), ("stored", 3)])
def test_compiled_plan_equals_the_golden_vector(name: str, version: int) -> None:
    compiled = compile(stored(name), version)
    golden = json.loads((VECTORS / "plans" / f"{name}.json").read_text())
    assert json.loads(compiled.plan.json_text()) == golden


@pytest.mark.parametrize("name", ["shop", "stored"])
def test_the_order_of_the_resources_does_not_matter(name: str) -> None:
    resources = stored(name)
    expected = compile(resources, version=1)
    for seed in range(20):
        random.Random(seed).shuffle(resources)
        assert compile(resources, version=1) == expected


def test_exposed_space_never_admits_anonymous_clients() -> None:
    compiler = Compiler(exposed=True)
    open_space, alice = space("default", "none"), user()
    for resource in (open_space, queue()):
        compiler.put(resource.key, resource)
    compiler.refresh()

    def served() -> tuple[str, bool]:
        (planned,) = compiler.spaces()
        return planned.authentication.type, planned.authentication.anonymous

    assert served() == ("standard", False)
    waiting = compiler.outcome(open_space.key).waiting
    assert waiting is not None and waiting.reason == "SpaceExposed"
    # A space without a choice is closed, and reports NoUsers while it has no user.
    silent = space("default")
    compiler.put(silent.key, silent)
    assert silent.key in compiler.refresh()
    now = compiler.outcome(silent.key)
    assert (served(), now.waiting) == (("standard", False), None)
    assert now.login_problem is not None and now.login_problem.reason == "NoUsers"
    compiler.put(alice.key, alice)
    assert silent.key in compiler.refresh()
    assert compiler.outcome(silent.key).login_problem is None
    compiler.put(alice.key, None)
    assert silent.key in compiler.refresh()
    assert served() == ("standard", False)
    # On a platform that is not exposed, both are open.
    for one in (open_space, silent):
        (planned,) = compile([one], 1).plan.spaces
        assert planned.authentication.type == "none"


def test_no_resources_compile_to_an_empty_plan() -> None:
    assert json.loads(compile([], version=3).plan.json_text()) == {"version": 3, "spaces": []}


def test_excluded_resources_are_reported_with_a_reason() -> None:
    excluded = compile(stored("shop"), version=1).excluded
    taken = excluded[Key("Address", "north", "shop.again")]
    assert taken.reason == "AddressTaken"
    assert "'orders' is already declared by shop.orders" in taken.message
    lost = excluded[Key("Address", "default", "shop.lost")]
    assert lost.reason == "SpaceMissing"
    assert "'shop' does not exist in namespace 'default'" in lost.message
    (ignored,) = (one for key, one in excluded.items() if key.kind == "MessagingUser")
    assert ignored.reason == "UsersNotAsked"
    assert len(excluded) == 3


def test_user_deleted_but_held_by_a_finalizer_is_not_planned() -> None:
    keeps = {"uid": "uid-1", "finalizers": ("example.com/audit",)}
    gone = keeps | {"deletion_timestamp": "2026-01-01T00:00:00Z"}
    before, after = (
        compile([space(uid="uid-0"), user(**metadata)], version=1).plan.spaces[0]
        for metadata in (keeps, gone)
    )
    assert [one.name for one in before.users] == ["alice"]
    assert after.users == ()
    assert after.authentication.type == before.authentication.type == "standard"


def test_declared_service_named_standard_does_not_replace_the_built_in_one() -> None:
    data = {
        "apiVersion": "admin.enmasse.io/v1beta1",
        "kind": "AuthenticationService",
        "metadata": {"name": "standard", "namespace": "enmasse-infra"},
        "spec": {"type": "none"},
    }
    service = parse(data, stored=True)
    metadata = {"name": "default", "uid": "uid-0"}
    spec = {"type": "standard", "authenticationService": {"name": "standard"}}
    named = {"apiVersion": "enmasse.io/v1beta1", "kind": "AddressSpace"}
    closed = parse(named | {"metadata": metadata, "spec": spec}, stored=True)
    planned = compile([service, closed], version=1).plan
    assert planned.spaces[0].authentication.type == "standard"


def test_address_with_a_missing_reference_is_planned_as_waiting() -> None:
    compiled = compile(stored("stored"), version=1)
    assert compiled.excluded == {}
    assert {key.name: waiting.reason for key, waiting in compiled.waiting.items()} == {
        "default.lonely": "TopicMissing",
        "default.parcels": "DeadletterMissing",
    }
    assert compiled.waiting[Key("Address", "default", "default.parcels")].message == (
        "references a dead letter address 'gone' that does not exist; references an "
        "expiry address 'gone' that does not exist"
    )


def test_dead_letter_reference_to_a_queue_is_reported_and_not_planned() -> None:
    resources = [queue(deadletter="dead"), queue("default.dead"), space()]
    compiled = compile(resources, version=1)
    assert compiled.waiting[queue().key].reason == "DeadletterWrongType"
    planned = {one.name: one for one in compiled.plan.spaces[0].addresses}
    assert planned["orders"].deadletter is None
    assert planned["orders"].redelivery is not None
    assert planned["orders"].redelivery.attempts is None
    assert planned["orders"].redelivery.reject_is_failure is True


def test_address_named_like_a_subscription_in_full_is_excluded() -> None:
    older = subscription().with_metadata(creation_timestamp="2026-01-01T00:00:00Z")
    twin = address("default.twin", "queue", "news::night")
    twin = twin.with_metadata(creation_timestamp="2026-01-02T00:00:00Z")
    compiled = compile([space(), topic(), older, twin], version=1)
    assert compiled.excluded[twin.key].reason == "AddressTaken"
    names = [one.name for one in compiled.plan.spaces[0].addresses]
    assert names == ["news", "news::night"]


names = st.sampled_from(["a", "b", "c", "a::b"])
declared = st.one_of(
    st.builds(queue, st.just("default.x"), deadletter=names, expiry=names),
    st.builds(topic, st.just("default.x"), deadletter=names),
    st.builds(subscription, st.just("default.x"), topic=names, deadletter=names),
    st.builds(deadletter, st.just("default.x")),
)


@settings(deadline=None)
@given(st.lists(st.tuples(declared, names), max_size=8))
def test_plan_of_arbitrary_addresses_is_consistent(drawn: list[tuple[Address, str]]) -> None:
    addresses = [
        one.model_copy(
            update={"spec": one.spec.model_copy(update={"address": name})}
        ).with_metadata(name=f"default.x{number}", uid=f"u{number}")
        for number, (one, name) in enumerate(drawn)
    ]
    compiled = compile([space(), *addresses], version=1)
    planned = compiled.plan.spaces[0].addresses
    by_name = {one.name: one for one in planned}
    assert len(by_name) == len(planned)
    excluded = {one.metadata.uid for one in addresses if one.key in compiled.excluded}
    assert {one.uid for one in planned} == {one.metadata.uid for one in addresses} - excluded
    for one in planned:
        assert all(
            by_name[name].type == "deadletter" for name in (one.deadletter, one.expiry) if name
        )
        if one.redelivery and one.redelivery.attempts:
            assert one.deadletter, "bounded delivery attempts need a dead letter address"
        assert (one.subscription is not None) == (one.type == "subscription")


def test_older_of_two_users_with_one_name_is_planned() -> None:
    resources = stored("shop")
    alice = next(resource for resource in resources if resource.metadata.name == "shop.alice")
    twin = alice.with_metadata(name="shop.a-twin", creation_timestamp="2026-01-02T00:00:00Z")
    compiled = compile([*resources, twin], version=1)
    assert compiled.excluded[twin.key].reason == "UserNameTaken"
    assert compiled.plan == compile(resources, version=1).plan


def test_stored_user_with_too_many_wildcard_patterns_is_excluded() -> None:
    resources = stored("shop")
    alice = next(one for one in resources if one.metadata.name == "shop.alice")
    assert isinstance(alice, MessagingUser)
    many = Authorization(
        addresses=tuple(f"#/a/#/{n}" for n in range(WILDCARDS_MAX + 1)), operations=("send",)
    )
    spec = alice.spec.model_copy(update={"authorization": (many,)})
    greedy = alice.model_copy(update={"spec": spec})
    compiled = compile([*(one for one in resources if one is not alice), greedy], version=1)
    assert compiled.excluded[greedy.key].reason == "TooManyAddresses"
    assert "alice" not in {user.name for user in compiled.plan.spaces[0].users}


@pytest.mark.parametrize(
    ("service", "with_user", "open_"),
    [
        (None, False, True),
        (None, True, False),
        ({"type": "none"}, True, True),
        ({"type": "standard"}, False, False),
        ({"name": "none"}, False, True),
        ({"name": "standard-authservice"}, False, False),
        ({}, False, True),
    ],
)
def test_authentication_service_and_users_decide_anonymous_access(
    service: dict[str, str] | None, with_user: bool, open_: bool
) -> None:
    spec = {"type": "standard"} | ({} if service is None else {"authenticationService": service})
    space: Any = parse(
        {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "AddressSpace",
            "metadata": {"name": "shop", "namespace": "north"},
            "spec": spec,
        }
    )
    users = [
        resource
        for resource in stored("shop")
        if isinstance(resource, MessagingUser) and resource.metadata.name == "shop.alice"
    ]
    resources: list[Resource] = [space, *users] if with_user else [space]
    (planned,) = compile(resources, version=1).plan.spaces
    assert planned.authentication.anonymous is open_
    assert bool(open_spaces(DeclaredState(resources), exposed=False)) is open_
    assert bool(planned.users) is (with_user and not open_)


def test_sha_1_mechanisms_are_neither_offered_nor_stored() -> None:
    assert not any("SHA-1" in one for one in (*STANDARD_MECHANISMS, *BEARER_MECHANISMS))
    with pytest.raises(ValidationError):
        Verifier.model_validate(
            {
                "mechanism": "SCRAM-SHA-1",
                "salt": "",
                "iterations": 1,
                "storedKey": "",
                "serverKey": "",
            }
        )
