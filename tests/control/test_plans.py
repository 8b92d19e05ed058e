"""Plans and quotas as tenants and service administrators see them: cases of the original."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from control.test_manager import Platform
from doubles import (
    TestClock,
    address,
    address_plan,
    deadletter,
    infra,
    queue,
    space,
    space_plan,
    topic,
)
from enmasse.base.errors import Code, Conflict, Exhausted, Invalid
from enmasse.control import Manager
from enmasse.control.default_plans import platform_resources
from enmasse.resources import Address, AddressPlan, AddressSpace, Declared, Key, Resource, parse
from enmasse.resources.address import TYPES
from enmasse.resources.conditions import READY, find

SPACE = Key("AddressSpace", "default", "default")
SMALL = address_plan("small", "queue", router=0.01, broker=0.4)
LARGE = address_plan("large", "queue", router=0.01, broker=1)
TINY = address_plan("tiny", "anycast", router=0.3)
SPREAD = address_plan("spread", "queue", router=0.01, broker=0.1, partitions=2)
WIDE = address_plan("wide", "queue", router=0.01, broker=0.1, partitions=4)
TOPIC = address_plan("topic", "topic", router=0.2, broker=0.4)
DEAD = address_plan("dead", "deadletter")
PLANS = [SMALL, LARGE, TINY, SPREAD, WIDE, TOPIC, DEAD]
QUOTA = space_plan("p", PLANS, (1, 2, 3))


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    platform = Platform()
    async with platform.running():
        await platform.apply(infra(), *PLANS, QUOTA, space_plan("wider", PLANS, (5, 5, 10)))
        await platform.apply(space(plan="p"))
        yield platform


@pytest.fixture
async def new() -> AsyncIterator[Platform]:
    """A platform at its first start."""
    platform = Platform()
    async with platform.running():
        await platform.admission.create_defaults(platform_resources())
        await platform.manager.reached(platform.store.version)
        yield platform


def key(name: str) -> Key:
    return Key("Address", "default", f"default.{name}")


def a_queue(name: str, plan: str | None = "large", **spec: object) -> Address:
    return queue(f"default.{name}", address=name, **({"plan": plan} if plan else {}), **spec)


def of(platform: Platform, name: Key) -> Declared:
    found = platform.store.get(name)
    assert isinstance(found, Declared)
    return found


def said(platform: Platform, name: Key) -> tuple[str, str, str]:
    """Phase, reason and message."""
    status = of(platform, name).status
    ready = find(status.conditions, READY)
    assert ready is not None
    assert status.observed_generation == of(platform, name).metadata.generation
    return status.phase, ready.reason, ready.message


async def test_T_AS_1_spaces_of_both_types_become_ready_and_are_deleted(new: Platform) -> None:
    await new.apply(space(), space("second", type_="brokered"))
    for name in ("default", "second"):
        assert new.phase(Key("AddressSpace", "default", name)) == "Active"
        await new.admission.delete(Key("AddressSpace", "default", name))
    await new.manager.reached(new.store.version)
    assert new.planned() == {}


async def test_T_AS_2_brokered_space_rejects_anycast_and_multicast(new: Platform) -> None:
    await new.apply(space(type_="brokered"), queue(), topic(), deadletter())
    plans = {
        one.metadata.name: one.spec.plan
        for one in new.store.list("Address")
        if isinstance(one, Address)
    }
    assert plans == {
        "default.orders": "brokered-queue",
        "default.news": "brokered-topic",
        "default.dead": "brokered-deadletter",
    }
    for type_ in ("anycast", "multicast"):
        with pytest.raises(Invalid, match=f"type brokered has no {type_}, only queue, topic"):
            await new.admission.create(address("default.x", type_))


async def test_T_AS_4_the_schema_lists_types_plans_and_services(new: Platform) -> None:
    found = {one.metadata.name: one for one in new.events.list("AddressSpaceSchema")}
    assert set(found) == {"standard", "brokered"}
    spec = found["standard"].document()["spec"]
    assert [one["name"] for one in spec["addressTypes"]] == list(TYPES)
    assert [one["name"] for one in spec["plans"]] == [
        *("standard-unlimited", "standard-small", "standard-medium", "standard-free")
    ]
    (queues,) = [one for one in spec["addressTypes"] if one["name"] == "queue"]
    assert [one["name"] for one in queues["plans"]] == [
        *("standard-small-queue", "standard-medium-queue", "standard-large-queue"),
        "standard-xlarge-queue",
        *(f"standard-{size}-partitioned-queue" for size in ("small", "medium", "large")),
        "standard-free-queue",
    ]
    assert queues["plans"][0]["resources"] == {"router": 0.001, "broker": 0.01}
    partitions = {one["name"]: one.get("partitions") for one in queues["plans"]}
    assert partitions["standard-large-partitioned-queue"] == 3
    assert "none-authservice" in spec["authenticationServices"]
    await new.admission.delete(Key("AddressPlan", "enmasse-infra", "standard-xlarge-queue"))
    await new.manager.reached(new.store.version)
    after = new.events.get(Key("AddressSpaceSchema", "", "standard"))
    assert after is not None
    (queues,) = [one for one in after.document()["spec"]["addressTypes"] if one["name"] == "queue"]
    assert "standard-xlarge-queue" not in [one["name"] for one in queues["plans"]]


async def test_the_schema_shows_what_plans_allow(new: Platform) -> None:
    spec = new.events.get(Key("AddressSpaceSchema", "", "standard")).document()["spec"]
    plans = {one["name"]: one for one in spec["plans"]}
    assert plans["standard-free"]["limits"]["allowance"] == {
        "period": "month",
        "messages": 100_000,
        "bytes": 1 << 30,
    }
    assert plans["standard-free"]["addressPlans"][0] == "standard-free-anycast"
    bounded = address_plan(
        "bounded", "queue", broker=0.5, limits={"messages": 10}, messageTtl={"maximum": 60_000}
    )
    await new.apply(bounded, space_plan("own", [bounded], (1, 1, 2), limits={"links": 7}))
    await new.manager.reached(new.store.version)
    spec = new.events.get(Key("AddressSpaceSchema", "", "standard")).document()["spec"]
    (own,) = [one for one in spec["plans"] if one["name"] == "own"]
    assert (own["addressPlans"], own["limits"]) == (["bounded"], {"links": 7})
    (queues,) = [one for one in spec["addressTypes"] if one["name"] == "queue"]
    (shown,) = [one for one in queues["plans"] if one["name"] == "bounded"]
    assert (shown["limits"], shown["messageTtl"]) == ({"messages": 10}, {"maximum": 60_000})


async def test_T_AS_9_unknown_plan_is_rejected_and_the_space_stays_active(
    platform: Platform,
) -> None:
    await platform.apply(a_queue("a"))
    with pytest.raises(Invalid) as refusal:
        await platform.admission.replace(space(plan="none-such"))
    assert refusal.value.code == Code.CHOICE_INVALID
    assert refusal.value.faults[0].field == "spec.plan"
    assert "plans for type standard: p, wider" in refusal.value.message
    assert platform.phase(SPACE) == "Active"
    assert platform.phase(key("a")) == "Active"


async def test_T_AS_10_the_type_of_a_space_does_not_change(platform: Platform) -> None:
    with pytest.raises(Invalid, match="cannot change"):
        await platform.admission.replace(space(type_="brokered"))
    now = platform.store.get(SPACE)
    assert isinstance(now, AddressSpace)
    assert now.spec.type == "standard"


async def test_resource_without_a_plan_gets_the_first_one(new: Platform) -> None:
    await new.apply(space(), *(address(f"default.{type_}", type_) for type_ in TYPES[:4]))
    assert of(new, SPACE).document()["spec"]["plan"] == "standard-unlimited"
    for type_ in TYPES[:4]:
        assert of(new, key(type_)).document()["spec"]["plan"] == f"standard-small-{type_}"
        assert new.phase(key(type_)) == "Active"


async def test_plan_without_a_display_order_is_never_the_default(new: Platform) -> None:
    offered = address_plan("a-first-by-name", "queue", broker=0.01)
    await new.apply(offered, space_plan("a-first-by-name", [offered]))
    await new.apply(space())
    assert of(new, SPACE).document()["spec"]["plan"] == "standard-unlimited"


async def test_address_updated_without_a_plan_keeps_its_plan(platform: Platform) -> None:
    await platform.apply(a_queue("a", "large"))
    await platform.apply(a_queue("a", None))
    assert of(platform, key("a")).document()["spec"]["plan"] == "large"


async def test_resources_stored_before_plans_existed_get_default_plans(new: Platform) -> None:
    old = Platform()
    await old.admission.apply([space(), queue()])
    await old.admission.create_defaults(platform_resources())
    assert of(old, SPACE).document()["spec"]["plan"] == "standard-unlimited"
    assert of(old, queue().key).document()["spec"]["plan"] == "standard-small-queue"


async def test_deleted_default_plan_is_not_created_again(new: Platform) -> None:
    gone = Key("AddressPlan", "enmasse-infra", "standard-free-queue")
    await new.admission.delete(gone)
    await new.admission.create_defaults(platform_resources())
    assert new.store.get(gone) is None


async def test_default_platform_resources_are_active_and_round_trip(new: Platform) -> None:
    for one in platform_resources():
        found = of(new, one.key)
        assert said(new, one.key)[0] == "Active"
        assert parse(found.document(), stored=True) == found
        assert found.faults() == []


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ("none-such", "AddressPlan 'none-such' not found; plans offered for queue: small, large"),
        ("tiny", "'tiny' is for anycast; plans offered for queue: small, large"),
        (
            "hidden",
            "plan 'p' of the address space does not offer 'hidden'; plans offered for queue:",
        ),
    ],
)
async def test_T_PL_10_unknown_or_unsuitable_plan_is_rejected(
    platform: Platform, plan: str, says: str
) -> None:
    await platform.apply(address_plan("hidden", "queue", router=0.1, broker=0.1))
    with pytest.raises(Invalid) as refusal:
        await platform.admission.create(a_queue("a", plan))
    assert (refusal.value.code, refusal.value.faults[0].field) == (Code.CHOICE_INVALID, "spec.plan")
    assert says in refusal.value.message


async def declare_past_admission(platform: Platform, *resources: Resource) -> None:
    """Write past admission, without a check of the quota, as other writers of a store do."""
    await platform.store.put(resources)
    await platform.manager.reached(platform.store.version)


async def refused(platform: Platform, resource: Resource) -> Exhausted:
    """Declare a resource that exceeds the quota; return the error."""
    with pytest.raises(Exhausted) as refusal:
        await platform.apply(resource)
    assert refusal.value.code == Code.QUOTA_EXCEEDED
    assert [fault.field for fault in refusal.value.faults] == ["spec.plan"]
    return refusal.value


async def test_T_PL_2_and_3_address_beyond_the_quota_is_rejected(platform: Platform) -> None:
    tiny = [address(f"default.t{n}", "anycast", spec={"plan": "tiny"}) for n in range(4)]
    await platform.apply(*tiny[:3])
    assert [platform.phase(one.key) for one in tiny[:3]] == ["Active"] * 3
    refusal = await refused(platform, tiny[3])
    assert refusal.message == (
        "Address default.t3 is forbidden: spec.plan: exceeded quota: address space 'default' would"
        " need router 2 of 1 that its plan p allows; delete addresses, choose a smaller plan, or"
        " give the address space a larger one"
    )
    assert platform.store.get(tiny[3].key) is None
    assert of(platform, tiny[0].key).document()["status"]["planStatus"] == {
        "name": "tiny", "partitions": 1, "resources": {"router": 0.3},
    }  # fmt: skip
    await platform.admission.delete(tiny[0].key)
    await platform.apply(tiny[3])
    assert platform.phase(tiny[3].key) == "Active"


@pytest.mark.parametrize(
    ("type_", "plan", "fit", "quota"),
    [
        ("anycast", "tiny", 3, (1, 2, 2)),
        ("queue", "mid", 2, (1, 2, 3)),
        ("topic", "topic", 2, (1, 2, 2)),
        ("queue", "large", 2, (2, 2, 3)),
        ("topic", "own", 2, (2, 2, 3)),
    ],
)
async def test_T_PL_2_and_3_quota_holds_for_each_address_type(
    platform: Platform, type_: str, plan: str, fit: int, quota: tuple[float, float, float]
) -> None:
    mid = address_plan("mid", "queue", router=0.2, broker=0.6)
    own = address_plan("own", "topic", router=0.2, broker=1)
    await platform.apply(mid, own, space_plan("p", [*PLANS, mid, own], quota))
    made = [address(f"default.a{n}", type_, spec={"plan": plan}) for n in range(fit + 1)]
    await platform.apply(*made[:fit])
    with pytest.raises(Exhausted):
        await platform.admission.create(made[-1], dry_run=True)
    await refused(platform, made[-1])
    assert len(platform.planned()["default"]) == fit


async def test_T_PL_2_aggregate_limit_applies_independently(platform: Platform) -> None:
    await platform.apply(space_plan("p", PLANS, (1, 2, 2)))
    await platform.apply(a_queue("a", "large"))
    assert "aggregate 3 of 2" in (await refused(platform, a_queue("b", "large"))).message


async def test_concurrent_requests_do_not_exceed_the_quota(
    platform: Platform,
) -> None:
    answers = await asyncio.gather(
        *(platform.admission.create(a_queue(f"q{n}")) for n in range(8)), return_exceptions=True
    )
    assert sum(isinstance(one, Exhausted) for one in answers) == 6
    await platform.manager.reached(platform.store.version)
    stored = platform.store.list("Address")
    assert [platform.phase(one.key) for one in stored] == ["Active", "Active"]


async def test_request_beyond_the_quota_creates_none_of_its_resources(platform: Platform) -> None:
    with pytest.raises(Exhausted, match=r"default\.q2 is forbidden.*broker 3 of 2"):
        await platform.apply(*(a_queue(f"q{n}") for n in range(3)))
    assert platform.store.list("Address") == []
    await platform.apply(space(plan="wider"), *(a_queue(f"q{n}") for n in range(3)))
    assert len(platform.planned()["default"]) == 3


async def test_exceeded_quota_rejects_only_changes_that_need_more(
    platform: Platform,
) -> None:
    await platform.apply(a_queue("a"), a_queue("b"))
    await platform.apply(space_plan("p", PLANS, (1, 1, 2)))
    assert platform.phase(key("a")) == platform.phase(key("b")) == "Active"
    await platform.apply(a_queue("a", messageTtl={"maximum": 5}))
    # The additional router credit needs no further router.
    await platform.apply(address("default.t", "anycast", spec={"plan": "tiny"}))
    assert platform.phase(key("t")) == "Active"
    await refused(platform, a_queue("c", "small"))
    await platform.apply(a_queue("a", "small"))
    await platform.apply(a_queue("b", "small"))
    await refused(platform, a_queue("c", "small"))


async def test_pending_address_is_not_overtaken_by_a_new_one(platform: Platform) -> None:
    await platform.apply(a_queue("a"))
    await declare_past_admission(platform, a_queue("b"), a_queue("c"))
    phase, reason, message = said(platform, key("c"))
    assert (phase, reason) == ("Pending", "QuotaExceeded")
    assert "broker 3 of 2, aggregate 4 of 3 that plan p allows" in message
    assert of(platform, key("c")).document()["status"].get("planStatus") is None
    await platform.admission.delete(key("a"))
    await refused(platform, a_queue("d"))
    await platform.manager.reached(platform.store.version)
    assert platform.phase(key("b")) == platform.phase(key("c")) == "Active"


async def test_T_PL_3_admitted_addresses_stay_admitted_after_a_restart(platform: Platform) -> None:
    await platform.apply(a_queue("b"), a_queue("c"))
    await declare_past_admission(platform, a_queue("a"))
    assert platform.phase(key("a")) == "Pending"
    # The pending address is now first by name; the admitted ones must keep their quota.
    again = Platform()
    await Manager(platform.store, again.engine, TestClock(), again.events).catch_up()
    assert again.planned()["default"] == ["b", "c"]


async def test_T_PL_4_partitions_change_with_the_plan(platform: Platform) -> None:
    await platform.apply(a_queue("a", "small"))
    for plan, partitions in (("spread", 2), ("small", 1)):
        await platform.apply(a_queue("a", plan))
        assert platform.phase(key("a")) == "Active"
        status = of(platform, key("a")).document()["status"]
        assert status["planStatus"]["partitions"] == partitions
    assert "broker 4 of 2" in (await refused(platform, a_queue("a", "wide"))).message
    assert of(platform, key("a")).document()["spec"]["plan"] == "small"


async def test_T_PL_7_larger_plan_activates_pending_addresses(platform: Platform) -> None:
    await platform.apply(a_queue("q0"), a_queue("q1"))
    await declare_past_admission(platform, a_queue("q2"))
    assert platform.phase(key("q2")) == "Pending"
    await platform.apply(space(plan="wider"))
    assert platform.phase(key("q2")) == "Active"
    await platform.apply(a_queue("q3"))
    assert platform.phase(key("q3")) == "Active"


async def test_T_PL_8_too_small_space_plan_is_rejected_and_the_old_one_stays(
    platform: Platform,
) -> None:
    await platform.apply(space(plan="wider"))
    await platform.apply(*(a_queue(f"q{n}") for n in range(4)))
    refusal = await refused(platform, space(plan="p"))
    assert "Unable to apply plan 'p': Quota exceeded" in refusal.message
    assert "broker 4 of 2" in refusal.message
    assert of(platform, SPACE).document()["spec"]["plan"] == "wider"
    for n in range(2):
        await platform.admission.delete(key(f"q{n}"))
    await platform.apply(space(plan="p"))
    assert platform.phase(SPACE) == "Active"


async def test_T_PL_9_queue_keeps_its_uid_when_its_plan_changes(platform: Platform) -> None:
    await platform.apply(a_queue("a", "small"))
    uid = of(platform, key("a")).metadata.uid
    for plan in ("large", "small"):
        await platform.apply(a_queue("a", plan))
        assert of(platform, key("a")).metadata.uid == uid
        assert platform.phase(key("a")) == "Active"


async def test_T_PL_8_address_keeps_its_plan_when_a_larger_one_exceeds_the_quota(
    platform: Platform,
) -> None:
    await platform.apply(a_queue("a", "large"), a_queue("b", "small"), a_queue("c", "small"))
    assert "broker 3 of 2" in (await refused(platform, a_queue("b", "large"))).message
    await platform.apply(a_queue("a", "small"))
    await platform.apply(a_queue("b", "large"))
    assert platform.phase(key("b")) == "Active"


async def test_pending_address_becomes_active_with_a_smaller_plan(platform: Platform) -> None:
    await platform.apply(a_queue("a"), a_queue("b", "small"))
    await declare_past_admission(platform, a_queue("c"))
    assert platform.phase(key("c")) == "Pending"
    await platform.apply(a_queue("c", "small"))
    assert platform.phase(key("c")) == "Active"


async def test_T_PL_11_changed_plan_credit_takes_effect_at_once(platform: Platform) -> None:
    await platform.apply(a_queue("a", "small"), a_queue("b", "small"))
    more = address_plan("small", "queue", router=0.01, broker=1)
    await platform.apply(more)
    credit = of(platform, key("a")).document()["status"]["planStatus"]["resources"]
    assert credit == {"router": 0.01, "broker": 1.0}
    await refused(platform, a_queue("c", "small"))
    await platform.apply(SMALL)
    await platform.apply(a_queue("c", "small"))
    assert platform.phase(key("c")) == "Active"


async def test_T_DL_1_status_shows_the_effective_ttl_of_plan_and_address(
    platform: Platform,
) -> None:
    bounded = address_plan(
        "small", "queue", router=0.01, broker=0.4, messageTtl={"minimum": 500, "maximum": 5000}
    )
    await platform.apply(bounded)
    ttl = {"minimum": 550, "maximum": 6000}
    await platform.apply(a_queue("a", "small", messageTtl=ttl))
    status = of(platform, key("a")).document()["status"]
    assert status["messageTtl"] == {"minimum": 550, "maximum": 5000}
    await platform.apply(a_queue("a", "small"))
    status = of(platform, key("a")).document()["status"]
    assert status["messageTtl"] == {"minimum": 500, "maximum": 5000}
    await platform.apply(SMALL)
    assert "messageTtl" not in of(platform, key("a")).document()["status"]


async def test_T_DL_4_address_waits_for_a_pending_dead_letter(platform: Platform) -> None:
    costly = address_plan("dead", "deadletter", router=0.9, broker=0.9)
    await platform.apply(costly, address("default.t", "anycast", spec={"plan": "tiny"}))
    waits = deadletter(plan="dead"), a_queue("a", "small", deadletter="dead")
    await declare_past_admission(platform, *waits)
    assert said(platform, key("dead"))[1] == "QuotaExceeded"
    assert said(platform, key("a"))[1] == "ReferenceWaits"
    await platform.apply(DEAD)
    assert platform.phase(key("dead")) == platform.phase(key("a")) == "Active"


@pytest.mark.parametrize(
    ("resource", "says"),
    [
        (SMALL, "AddressPlan small is in use by Address default.a, Address default.b"),
        (QUOTA, "AddressSpacePlan p is in use by AddressSpace default"),
    ],
)
async def test_a_plan_in_use_is_not_deleted(
    platform: Platform, resource: Resource, says: str
) -> None:
    await platform.apply(a_queue("a", "small"), a_queue("b", "small"))
    with pytest.raises(Conflict, match=says):
        await platform.admission.delete(resource.key)
    with pytest.raises(Conflict, match="is in use by"):
        await platform.admission.delete(Key("Namespace", "", "enmasse-infra"))
    await platform.admission.delete(SPACE)
    await platform.admission.delete(resource.key)


async def test_a_service_in_use_is_not_deleted(new: Platform) -> None:
    named = {"type": "standard", "authenticationService": {"name": "none-authservice"}}
    one = parse(
        {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "AddressSpace",
            "metadata": {"name": "default"},
            "spec": named,
        }
    )
    await new.apply(one)
    service = Key("AuthenticationService", "enmasse-infra", "none-authservice")
    with pytest.raises(Conflict, match="in use by AddressSpace default"):
        await new.admission.delete(service)


def a_service(name: str, type_: str, **settings: object) -> Resource:
    spec: dict[str, object] = {"type": type_, **settings}
    return parse(
        {
            "apiVersion": "admin.enmasse.io/v1beta1",
            "kind": "AuthenticationService",
            "metadata": {"name": name},
            "spec": spec,
        }
    )


def guarded_by(service: str, **choice: object) -> Resource:
    return parse(
        {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "AddressSpace",
            "metadata": {"name": "default"},
            "spec": {"type": "standard", "authenticationService": {"name": service, **choice}},
        }
    )


async def test_space_must_name_a_declared_authentication_service(new: Platform) -> None:
    with pytest.raises(Invalid, match="authentication service 'mine' not found; available:"):
        await new.admission.create(guarded_by("mine"))
    await new.apply(a_service("mine", "none"), guarded_by("mine"))
    assert new.engine.plan.spaces[0].authentication.anonymous is True
    await new.apply(a_service("closed", "standard"), guarded_by("closed"))
    assert new.engine.plan.spaces[0].authentication.anonymous is False


async def test_authentication_service_type_of_a_space_must_match_the_service(new: Platform) -> None:
    with pytest.raises(Invalid, match="type external needs the name"):
        guarded_by("", type="external")
    ldap = a_service("ldap", "external", external={"host": "ldap.example", "port": 5671})
    await new.apply(ldap, guarded_by("ldap", type="external"))
    assert new.engine.plan.spaces[0].authentication.type == "delegated"
    with pytest.raises(Invalid, match="'ldap' is of type external, not standard; omit the type"):
        await new.admission.replace(guarded_by("ldap", type="standard"))
    sso = a_service("sso", "keycloak", keycloak={"url": "https://sso.example"})
    await new.apply(sso, guarded_by("sso", type="standard"))  # The name in the original.


async def test_external_authentication_service_delegates_logins(new: Platform) -> None:
    place = {"host": "ldap.example", "port": 5671, "caCertSecret": {"name": "ca"}}
    ldap = a_service("ldap", "external", external=place)
    await new.apply(ldap, guarded_by("ldap"))
    assert said(new, ldap.key)[:2] == ("Active", "Served")
    status = of(new, ldap.key).document()["status"]
    assert {name: status[name] for name in place} == place
    authentication = new.engine.plan.spaces[0].authentication
    assert (authentication.type, authentication.anonymous) == ("delegated", False)
    assert authentication.mechanisms == ("OAUTHBEARER", "XOAUTH2", "PLAIN")
    assert authentication.service is not None
    await new.apply(a_service("ldap", "external", external=place | {"host": "other.example"}))
    after = new.engine.plan.spaces[0].authentication.service
    assert after not in (None, authentication.service), "logins by the former service must end"


async def test_service_with_an_oidc_issuer_offers_token_mechanisms(new: Platform) -> None:
    issuer = {"issuer": "https://issuer.example"}
    await new.apply(a_service("idp", "standard", standard={"oidc": issuer}), guarded_by("idp"))
    authentication = new.engine.plan.spaces[0].authentication
    assert authentication.type == "standard"
    assert {"OAUTHBEARER", "XOAUTH2", "PLAIN", "EXTERNAL"} < {*authentication.mechanisms}
    await new.apply(a_service("idp", "standard"))
    authentication = new.engine.plan.spaces[0].authentication
    assert (authentication.service, "OAUTHBEARER" in authentication.mechanisms) == (None, False)


async def test_space_overrides_need_the_permission_of_the_service(new: Platform) -> None:
    place = {"host": "ldap.example", "port": 5671}
    await new.apply(a_service("ldap", "external", external=place))
    own = guarded_by("ldap", overrides={"realm": "mine"})
    with pytest.raises(Invalid, match=r"overrides: .*'ldap' allows no overrides"):
        await new.admission.create(own)
    await new.apply(a_service("ldap", "external", external=place | {"allowOverride": True}), own)
    before = new.engine.plan.spaces[0].authentication.service
    await new.apply(guarded_by("ldap", overrides={"realm": "other"}))
    assert new.engine.plan.spaces[0].authentication.service != before


async def test_pending_plan_reports_its_missing_references(new: Platform) -> None:
    later = address_plan("later", "queue", router=0.1, broker=0.1)
    plan = space_plan("early", [later], infraConfigRef="mine")
    await new.apply(plan)
    assert said(new, plan.key) == (
        "Pending", "InfraConfigMissing", "waiting for StandardInfraConfig 'mine'",
    )  # fmt: skip
    await new.apply(infra("mine"))
    assert said(new, plan.key)[1] == "AddressPlanMissing"
    assert of(new, plan.key).document()["status"]["message"] == ("waiting for AddressPlan later")
    await new.apply(later)
    assert said(new, plan.key)[0] == "Active"
    assert "message" not in of(new, plan.key).document()["status"]


async def test_plan_name_is_unique_across_namespaces(platform: Platform) -> None:
    assert SMALL.metadata.namespace == "enmasse-infra"
    elsewhere = SMALL.with_metadata(namespace="mine")
    with pytest.raises(Conflict, match="'small' already belongs to one in namespace"):
        await platform.admission.create(elsewhere)
    own = address_plan("own", "queue", router=0.1, broker=0.1).with_metadata(namespace="mine")
    await platform.apply(own, space_plan("p", [*PLANS, own], (1, 2, 3)))
    await platform.apply(a_queue("a", "own"))
    assert platform.phase(key("a")) == "Active"


async def test_the_type_of_a_plan_does_not_change(platform: Platform) -> None:
    with pytest.raises(Invalid, match="cannot change"):
        await platform.admission.replace(address_plan("small", "topic", router=0.1, broker=0.1))


def test_v1beta1_plans_convert_to_the_v1beta2_form() -> None:
    older = {
        "apiVersion": "admin.enmasse.io/v1beta1",
        "kind": "AddressPlan",
        "metadata": {"name": "small"},
        "displayName": "Small",
        "displayOrder": 3,
        "shortDescription": "A small one",
        "uuid": "b4d0",
        "addressType": "queue",
        "requiredResources": [{"name": "router", "credit": 0.5}, {"name": "broker", "credit": 1}],
    }
    plan = parse(older)
    assert isinstance(plan, AddressPlan)
    assert plan.order == (3, "small")
    assert plan.document()["spec"]["resources"] == {"router": 0.5, "broker": 1.0}
    assert plan.document()["apiVersion"] == "admin.enmasse.io/v1beta2"
    older = {
        "apiVersion": "admin.enmasse.io/v1beta1",
        "kind": "AddressSpacePlan",
        "metadata": {"name": "p", "annotations": {"enmasse.io/defined-by": "default"}},
        "addressSpaceType": "standard",
        "addressPlans": ["small"],
        "resources": [
            {"name": "router", "max": 1.0},
            {"name": "broker", "max": 2.0},
            {"name": "aggregate", "max": 3.0},
        ],
    }
    spec = parse(older).document()["spec"]
    assert spec["infraConfigRef"] == "default"
    assert spec["resourceLimits"] == {"router": 1.0, "broker": 2.0, "aggregate": 3.0}
