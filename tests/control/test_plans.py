"""Plans and quotas as tenants and service administrators meet them: the original's cases."""

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
    """A platform as it is when it starts for the first time."""
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


async def test_T_AS_1_spaces_of_both_types_become_ready_and_vanish(new: Platform) -> None:
    await new.apply(space(), space("second", type_="brokered"))
    for name in ("default", "second"):
        assert new.phase(Key("AddressSpace", "default", name)) == "Active"
        await new.admission.delete(Key("AddressSpace", "default", name))
    await new.manager.reached(new.store.version)
    assert new.planned() == {}


async def test_T_AS_2_a_brokered_space_takes_queues_and_topics_only(new: Platform) -> None:
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
    assert "none-authservice" in spec["authenticationServices"]
    await new.admission.delete(Key("AddressPlan", "enmasse-infra", "standard-xlarge-queue"))
    await new.manager.reached(new.store.version)
    after = new.events.get(Key("AddressSpaceSchema", "", "standard"))
    assert after is not None
    assert "standard-xlarge-queue" not in str(after.document())


async def test_T_AS_9_an_unknown_plan_is_refused_and_the_space_goes_on(platform: Platform) -> None:
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


async def test_what_names_no_plan_gets_the_first_one(new: Platform) -> None:
    await new.apply(space(), *(address(f"default.{type_}", type_) for type_ in TYPES[:4]))
    assert of(new, SPACE).document()["spec"]["plan"] == "standard-unlimited"
    for type_ in TYPES[:4]:
        assert of(new, key(type_)).document()["spec"]["plan"] == f"standard-small-{type_}"
        assert new.phase(key(type_)) == "Active"


async def test_a_plan_without_a_place_is_nobodys_default(new: Platform) -> None:
    offered = address_plan("a-first-by-name", "queue", broker=0.01)
    await new.apply(offered, space_plan("a-first-by-name", [offered]))
    await new.apply(space())
    assert of(new, SPACE).document()["spec"]["plan"] == "standard-unlimited"


async def test_what_names_no_plan_any_more_keeps_the_one_it_has(platform: Platform) -> None:
    await platform.apply(a_queue("a", "large"))
    await platform.apply(a_queue("a", None))
    assert of(platform, key("a")).document()["spec"]["plan"] == "large"


async def test_what_is_older_than_plans_gets_one(new: Platform) -> None:
    old = Platform()
    await old.admission.apply([space(), queue()])
    await old.admission.create_defaults(platform_resources())
    assert of(old, SPACE).document()["spec"]["plan"] == "standard-unlimited"
    assert of(old, queue().key).document()["spec"]["plan"] == "standard-small-queue"


async def test_what_an_administrator_has_deleted_is_not_shipped_again(new: Platform) -> None:
    gone = Key("AddressPlan", "enmasse-infra", "standard-free-queue")
    await new.admission.delete(gone)
    await new.admission.create_defaults(platform_resources())
    assert new.store.get(gone) is None


async def test_everything_shipped_is_ready_and_reads_back(new: Platform) -> None:
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
async def test_T_PL_10_a_plan_that_does_not_fit_is_refused(
    platform: Platform, plan: str, says: str
) -> None:
    await platform.apply(address_plan("hidden", "queue", router=0.1, broker=0.1))
    with pytest.raises(Invalid) as refusal:
        await platform.admission.create(a_queue("a", plan))
    assert (refusal.value.code, refusal.value.faults[0].field) == (Code.CHOICE_INVALID, "spec.plan")
    assert says in refusal.value.message


async def declared_elsewhere(platform: Platform, *resources: Resource) -> None:
    """Declare without being asked whether there is room, as a store that others write does."""
    await platform.store.put(resources)
    await platform.manager.reached(platform.store.version)


async def refused(platform: Platform, resource: Resource) -> Exhausted:
    """Declare what there is no room for."""
    with pytest.raises(Exhausted) as refusal:
        await platform.apply(resource)
    assert refusal.value.code == Code.QUOTA_EXCEEDED
    assert [fault.field for fault in refusal.value.faults] == ["spec.plan"]
    return refusal.value


async def test_T_PL_2_and_3_what_finds_no_room_is_refused_at_once(platform: Platform) -> None:
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
async def test_T_PL_2_and_3_by_type(
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


async def test_T_PL_2_the_aggregate_is_a_limit_of_its_own(platform: Platform) -> None:
    await platform.apply(space_plan("p", PLANS, (1, 2, 2)))
    await platform.apply(a_queue("a", "large"))
    assert "aggregate 3 of 2" in (await refused(platform, a_queue("b", "large"))).message


async def test_of_requests_at_once_no_more_are_let_in_than_there_is_room(
    platform: Platform,
) -> None:
    answers = await asyncio.gather(
        *(platform.admission.create(a_queue(f"q{n}")) for n in range(8)), return_exceptions=True
    )
    assert sum(isinstance(one, Exhausted) for one in answers) == 6
    await platform.manager.reached(platform.store.version)
    stored = platform.store.list("Address")
    assert [platform.phase(one.key) for one in stored] == ["Active", "Active"]


async def test_a_file_that_has_no_room_changes_nothing(platform: Platform) -> None:
    with pytest.raises(Exhausted, match=r"default\.q2 is forbidden.*broker 3 of 2"):
        await platform.apply(*(a_queue(f"q{n}") for n in range(3)))
    assert platform.store.list("Address") == []
    await platform.apply(space(plan="wider"), *(a_queue(f"q{n}") for n in range(3)))
    assert len(platform.planned()["default"]) == 3


async def test_what_is_over_a_quota_already_keeps_out_only_what_needs_more(
    platform: Platform,
) -> None:
    await platform.apply(a_queue("a"), a_queue("b"))
    await platform.apply(space_plan("p", PLANS, (1, 1, 2)))
    assert platform.phase(key("a")) == platform.phase(key("b")) == "Active"
    await platform.apply(a_queue("a", messageTtl={"maximum": 5}))
    # A little router credit more needs no router more.
    await platform.apply(address("default.t", "anycast", spec={"plan": "tiny"}))
    assert platform.phase(key("t")) == "Active"
    await refused(platform, a_queue("c", "small"))
    await platform.apply(a_queue("a", "small"))
    await platform.apply(a_queue("b", "small"))
    await refused(platform, a_queue("c", "small"))


async def test_what_waits_is_not_overtaken(platform: Platform) -> None:
    await platform.apply(a_queue("a"))
    await declared_elsewhere(platform, a_queue("b"), a_queue("c"))
    phase, reason, message = said(platform, key("c"))
    assert (phase, reason) == ("Pending", "QuotaExceeded")
    assert "broker 3 of 2, aggregate 4 of 3 that plan p allows" in message
    assert of(platform, key("c")).document()["status"].get("planStatus") is None
    await platform.admission.delete(key("a"))
    await refused(platform, a_queue("d"))
    await platform.manager.reached(platform.store.version)
    assert platform.phase(key("b")) == platform.phase(key("c")) == "Active"


async def test_T_PL_3_what_has_room_keeps_it_over_a_restart(platform: Platform) -> None:
    await platform.apply(a_queue("b"), a_queue("c"))
    await declared_elsewhere(platform, a_queue("a"))
    assert platform.phase(key("a")) == "Pending"
    # What found no room is the oldest by name now; whose room it is must not depend on that.
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


async def test_T_PL_7_a_larger_plan_lets_in_what_waits(platform: Platform) -> None:
    await platform.apply(a_queue("q0"), a_queue("q1"))
    await declared_elsewhere(platform, a_queue("q2"))
    assert platform.phase(key("q2")) == "Pending"
    await platform.apply(space(plan="wider"))
    assert platform.phase(key("q2")) == "Active"
    await platform.apply(a_queue("q3"))
    assert platform.phase(key("q3")) == "Active"


async def test_T_PL_8_a_plan_that_is_too_small_is_refused_and_the_old_one_stays(
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


async def test_T_PL_9_another_plan_of_a_queue_keeps_the_queue(platform: Platform) -> None:
    await platform.apply(a_queue("a", "small"))
    uid = of(platform, key("a")).metadata.uid
    for plan in ("large", "small"):
        await platform.apply(a_queue("a", plan))
        assert of(platform, key("a")).metadata.uid == uid
        assert platform.phase(key("a")) == "Active"


async def test_T_PL_8_of_an_address_the_old_plan_stays_too(platform: Platform) -> None:
    await platform.apply(a_queue("a", "large"), a_queue("b", "small"), a_queue("c", "small"))
    assert "broker 3 of 2" in (await refused(platform, a_queue("b", "large"))).message
    await platform.apply(a_queue("a", "small"))
    await platform.apply(a_queue("b", "large"))
    assert platform.phase(key("b")) == "Active"


async def test_what_waits_may_take_a_smaller_plan(platform: Platform) -> None:
    await platform.apply(a_queue("a"), a_queue("b", "small"))
    await declared_elsewhere(platform, a_queue("c"))
    assert platform.phase(key("c")) == "Pending"
    await platform.apply(a_queue("c", "small"))
    assert platform.phase(key("c")) == "Active"


async def test_T_PL_11_credit_that_changes_counts_at_once(platform: Platform) -> None:
    await platform.apply(a_queue("a", "small"), a_queue("b", "small"))
    more = address_plan("small", "queue", router=0.01, broker=1)
    await platform.apply(more)
    credit = of(platform, key("a")).document()["status"]["planStatus"]["resources"]
    assert credit == {"router": 0.01, "broker": 1.0}
    await refused(platform, a_queue("c", "small"))
    await platform.apply(SMALL)
    await platform.apply(a_queue("c", "small"))
    assert platform.phase(key("c")) == "Active"


async def test_T_DL_1_the_status_says_what_plan_and_address_come_to(platform: Platform) -> None:
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


async def test_T_DL_4_a_dead_letter_that_waits_for_room_is_waited_for(platform: Platform) -> None:
    costly = address_plan("dead", "deadletter", router=0.9, broker=0.9)
    await platform.apply(costly, address("default.t", "anycast", spec={"plan": "tiny"}))
    waits = deadletter(plan="dead"), a_queue("a", "small", deadletter="dead")
    await declared_elsewhere(platform, *waits)
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


async def test_a_space_names_a_service_that_is_declared(new: Platform) -> None:
    with pytest.raises(Invalid, match="authentication service 'mine' not found; available:"):
        await new.admission.create(guarded_by("mine"))
    await new.apply(a_service("mine", "none"), guarded_by("mine"))
    assert new.engine.plan.spaces[0].authentication.anonymous is True
    await new.apply(a_service("closed", "standard"), guarded_by("closed"))
    assert new.engine.plan.spaces[0].authentication.anonymous is False


async def test_a_space_may_say_of_what_type_its_service_is(new: Platform) -> None:
    with pytest.raises(Invalid, match="type external needs the name"):
        guarded_by("", type="external")
    ldap = a_service("ldap", "external", external={"host": "ldap.example", "port": 5671})
    await new.apply(ldap, guarded_by("ldap", type="external"))
    assert new.engine.plan.spaces[0].authentication.type == "delegated"
    with pytest.raises(Invalid, match="'ldap' is of type external, not standard; omit the type"):
        await new.admission.replace(guarded_by("ldap", type="standard"))
    sso = a_service("sso", "keycloak", keycloak={"url": "https://sso.example"})
    await new.apply(sso, guarded_by("sso", type="standard"))  # as the original called it


async def test_a_service_elsewhere_is_asked(new: Platform) -> None:
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
    assert after not in (None, authentication.service), "who came in by the former has to go"


async def test_a_service_may_name_an_issuer_of_tokens(new: Platform) -> None:
    issuer = {"issuer": "https://issuer.example"}
    await new.apply(a_service("idp", "standard", standard={"oidc": issuer}), guarded_by("idp"))
    authentication = new.engine.plan.spaces[0].authentication
    assert authentication.type == "standard"
    assert {"OAUTHBEARER", "XOAUTH2", "PLAIN", "EXTERNAL"} < {*authentication.mechanisms}
    await new.apply(a_service("idp", "standard"))
    authentication = new.engine.plan.spaces[0].authentication
    assert (authentication.service, "OAUTHBEARER" in authentication.mechanisms) == (None, False)


async def test_a_space_overrides_only_what_a_service_allows(new: Platform) -> None:
    place = {"host": "ldap.example", "port": 5671}
    await new.apply(a_service("ldap", "external", external=place))
    own = guarded_by("ldap", overrides={"realm": "mine"})
    with pytest.raises(Invalid, match=r"overrides: .*'ldap' allows no overrides"):
        await new.admission.create(own)
    await new.apply(a_service("ldap", "external", external=place | {"allowOverride": True}), own)
    before = new.engine.plan.spaces[0].authentication.service
    await new.apply(guarded_by("ldap", overrides={"realm": "other"}))
    assert new.engine.plan.spaces[0].authentication.service != before


async def test_a_plan_says_what_it_waits_for(new: Platform) -> None:
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


async def test_the_name_of_a_plan_is_one_in_all_namespaces(platform: Platform) -> None:
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


def test_plans_of_the_older_form_are_those_of_the_present_one() -> None:
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
