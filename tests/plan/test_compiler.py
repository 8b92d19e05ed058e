"""Resources in, Plan out, against the vectors that the node reads too."""

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
def test_the_plan_is_the_golden_one(name: str, version: int) -> None:
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


def test_an_exposed_space_that_would_let_everybody_in_is_closed() -> None:
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
    # One that leaves it open is closed, and says so while nobody can come in.
    silent = space("default")
    compiler.put(silent.key, silent)
    assert silent.key in compiler.refresh()
    now = compiler.outcome(silent.key)
    assert (served(), now.waiting) == (("standard", False), None)
    assert now.unentered is not None and now.unentered.reason == "NoUsers"
    compiler.put(alice.key, alice)
    assert silent.key in compiler.refresh()
    assert compiler.outcome(silent.key).unentered is None
    compiler.put(alice.key, None)
    assert silent.key in compiler.refresh()
    assert served() == ("standard", False)
    # Where nobody else can reach them, both are open.
    for one in (open_space, silent):
        (planned,) = compile([one], 1).plan.spaces
        assert planned.authentication.type == "none"


def test_nothing_declared_is_an_empty_plan() -> None:
    assert json.loads(compile([], version=3).plan.json_text()) == {"version": 3, "spaces": []}


def test_what_is_left_out_is_named_with_the_reason() -> None:
    left_out = compile(stored("shop"), version=1).left_out
    taken = left_out[Key("Address", "north", "shop.again")]
    assert taken.reason == "AddressTaken"
    assert "'orders' is already declared by shop.orders" in taken.message
    lost = left_out[Key("Address", "default", "shop.lost")]
    assert lost.reason == "SpaceMissing"
    assert "'shop' does not exist in namespace 'default'" in lost.message
    (ignored,) = (one for key, one in left_out.items() if key.kind == "MessagingUser")
    assert ignored.reason == "UsersNotAsked"
    assert len(left_out) == 3


def test_a_user_that_only_finalizers_keep_is_let_in_no_more() -> None:
    keeps = {"uid": "uid-1", "finalizers": ("example.com/audit",)}
    gone = keeps | {"deletion_timestamp": "2026-01-01T00:00:00Z"}
    before, after = (
        compile([space(uid="uid-0"), user(**metadata)], version=1).plan.spaces[0]
        for metadata in (keeps, gone)
    )
    assert [one.name for one in before.users] == ["alice"]
    assert after.users == ()
    assert after.authentication.type == before.authentication.type == "standard"


def test_a_service_of_a_built_in_name_is_what_spaces_mean_by_it() -> None:
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


def test_what_waits_for_another_is_named_and_planned() -> None:
    compiled = compile(stored("stored"), version=1)
    assert compiled.left_out == {}
    assert {key.name: waiting.reason for key, waiting in compiled.waiting.items()} == {
        "default.lonely": "TopicMissing",
        "default.parcels": "DeadletterMissing",
    }
    assert compiled.waiting[Key("Address", "default", "default.parcels")].message == (
        "references a dead letter address 'gone' that does not exist; references an "
        "expiry address 'gone' that does not exist"
    )


def test_a_dead_letter_that_is_something_else_now_is_waited_for() -> None:
    resources = [queue(deadletter="dead"), queue("default.dead"), space()]
    compiled = compile(resources, version=1)
    assert compiled.waiting[queue().key].reason == "DeadletterWrongType"
    planned = {one.name: one for one in compiled.plan.spaces[0].addresses}
    assert planned["orders"].deadletter is None
    assert planned["orders"].redelivery is not None
    assert planned["orders"].redelivery.attempts is None
    assert planned["orders"].redelivery.reject_is_failure is True


def test_a_subscription_and_an_address_of_its_full_name_are_not_both_planned() -> None:
    older = subscription().with_metadata(creation_timestamp="2026-01-01T00:00:00Z")
    twin = address("default.twin", "queue", "news::night")
    twin = twin.with_metadata(creation_timestamp="2026-01-02T00:00:00Z")
    compiled = compile([space(), topic(), older, twin], version=1)
    assert compiled.left_out[twin.key].reason == "AddressTaken"
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
def test_whatever_is_declared_the_plan_holds_together(drawn: list[tuple[Address, str]]) -> None:
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
    left_out = {one.metadata.uid for one in addresses if one.key in compiled.left_out}
    assert {one.uid for one in planned} == {one.metadata.uid for one in addresses} - left_out
    for one in planned:
        assert all(
            by_name[name].type == "deadletter" for name in (one.deadletter, one.expiry) if name
        )
        if one.redelivery and one.redelivery.attempts:
            assert one.deadletter, "messages would be given up with nowhere to go"
        assert (one.subscription is not None) == (one.type == "subscription")


def test_of_two_users_of_one_name_the_older_is_let_in() -> None:
    resources = stored("shop")
    alice = next(resource for resource in resources if resource.metadata.name == "shop.alice")
    twin = alice.with_metadata(name="shop.a-twin", creation_timestamp="2026-01-02T00:00:00Z")
    compiled = compile([*resources, twin], version=1)
    assert compiled.left_out[twin.key].reason == "UserNameTaken"
    assert compiled.plan == compile(resources, version=1).plan


def test_a_stored_user_with_more_patterns_than_are_served_is_left_out() -> None:
    resources = stored("shop")
    alice = next(one for one in resources if one.metadata.name == "shop.alice")
    assert isinstance(alice, MessagingUser)
    many = Authorization(
        addresses=tuple(f"#/a/#/{n}" for n in range(WILDCARDS_MAX + 1)), operations=("send",)
    )
    spec = alice.spec.model_copy(update={"authorization": (many,)})
    greedy = alice.model_copy(update={"spec": spec})
    compiled = compile([*(one for one in resources if one is not alice), greedy], version=1)
    assert compiled.left_out[greedy.key].reason == "TooManyAddresses"
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
def test_who_may_come_in(service: dict[str, str] | None, with_user: bool, open_: bool) -> None:
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


def test_nothing_is_offered_or_kept_by_sha_1() -> None:
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
