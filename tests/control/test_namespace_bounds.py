"""Bounds of a namespace: it cannot exhaust the store for other namespaces."""

import asyncio

import pytest

from doubles import TestClock, deadletter, queue, space
from enmasse.base.errors import Code, Denied, EnMasseError, Exhausted
from enmasse.control import Admission
from enmasse.control.admission_checks import PLANS, NamespaceBounds
from enmasse.control.default_plans import ADDRESSES_MAX, platform_resources
from enmasse.resources import ConfigMap, Key, Namespace, Secret
from enmasse.resources.core import NamedMetadata, NamespaceMetadata
from enmasse.store import MemoryStore

BOUNDS = NamespaceBounds(resources=3, data_bytes=100)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(TestClock())


@pytest.fixture
async def admission() -> Admission:
    admission = Admission(MemoryStore(TestClock()), exposed=False, bounds=BOUNDS)
    await admission.apply([space(), space("far").with_metadata(namespace="far")])
    return admission


def secret(name: str, text: str = "", namespace: str = "default") -> Secret:
    return Secret(metadata=NamedMetadata(name=name, namespace=namespace), data={"x": text})


async def test_resource_beyond_the_namespace_bound_is_rejected_with_a_remedy(
    admission: Admission,
) -> None:
    for name in "abc":
        await admission.create(queue(f"default.{name}", address=name))
    with pytest.raises(Exhausted) as refused:
        await admission.create(queue("default.d", address="d"))
    assert refused.value.code == Code.QUOTA_EXCEEDED
    assert "namespace 'default' would hold 4 Address of 3; delete some" in refused.value.message
    assert "raise the setting namespace-resources-max" in refused.value.message
    # Other kinds and other namespaces have their own bounds.
    await admission.create(secret("s"))
    await admission.create(queue("far.d", address="d").with_metadata(namespace="far"))
    # Existing resources can be changed, and a deletion allows a new one.
    await admission.replace(queue("default.a", address="a", messageTtl={"maximum": 5000}))
    await admission.delete(Key("Address", "default", "default.a"))
    await admission.create(queue("default.d", address="d"))


async def test_concurrent_requests_do_not_exceed_the_namespace_bound(admission: Admission) -> None:
    async def make(number: int) -> bool:
        try:
            await admission.create(queue(f"default.q{number}", address=f"q{number}"))
        except EnMasseError:
            return False
        return True

    assert sum(await asyncio.gather(*map(make, range(10)))) == 3


async def test_request_with_too_many_resources_is_rejected(admission: Admission) -> None:
    with pytest.raises(Exhausted):
        await admission.apply([secret(name) for name in "abcd"])
    await admission.apply([secret(name) for name in "abc"])


async def test_the_bytes_of_secrets_and_config_maps_are_bounded(admission: Admission) -> None:
    await admission.create(secret("a", "x" * 60))
    with pytest.raises(Exhausted, match="120 bytes in Secret of 100"):
        await admission.create(secret("b", "x" * 60))
    with pytest.raises(Exhausted, match="104 bytes in Secret of 100"):
        await admission.replace(secret("a", "x" * 104))
    await admission.replace(secret("a", "x" * 100))
    await admission.create(secret("b", "x" * 60, "far"))
    both = {"data": {"a": "x" * 60}, "binary_data": {"b": "eHh4" * 12}}
    with pytest.raises(Exhausted, match="108 bytes in ConfigMap of 100"):
        await admission.create(ConfigMap(metadata=NamedMetadata(name="c"), **both))


async def test_resources_beyond_a_lowered_bound_stay_and_may_shrink() -> None:
    store = MemoryStore(TestClock())
    await Admission(store, exposed=False).apply([secret(name, "x" * 40) for name in "abcde"])
    admission = Admission(store, exposed=False, bounds=BOUNDS)
    await admission.replace(secret("a", "x" * 20))
    with pytest.raises(Exhausted):
        await admission.replace(secret("a", "x" * 24))
    with pytest.raises(Exhausted):
        await admission.create(secret("f"))


async def test_addresses_without_credit_are_bounded_too(
    admission: Admission,
) -> None:
    await admission.create_defaults(platform_resources())
    await admission.apply([space("b", type_="brokered")])
    for name in ("default.a", "default.b"):
        await admission.create(deadletter(name))
    await admission.create(queue("b.a", plan="brokered-queue"))
    for one in (deadletter("default.c"), queue("b.b", plan="brokered-queue")):
        with pytest.raises(Exhausted, match="would hold 4 Address of 3"):
            await admission.create(one)


async def test_each_shipped_plan_bounds_the_number_of_addresses(store: MemoryStore) -> None:
    admission = Admission(store, exposed=False)
    await admission.create_defaults(platform_resources())
    plans = store.list("AddressSpacePlan")
    assert {one.metadata.name for one in plans} == ADDRESSES_MAX.keys()
    assert all(ADDRESSES_MAX.values())
    most = ADDRESSES_MAX["brokered-single-broker"]
    dead = [deadletter(f"default.d{number}") for number in range(most)]
    await admission.apply([space(type_="brokered"), *dead])
    with pytest.raises(Exhausted) as refused:
        await admission.create(deadletter("default.more"))
    assert refused.value.code == Code.QUOTA_EXCEEDED
    assert refused.value.context["name"] == "default.more"
    assert (
        f"addresses {most + 1} of {most} that its plan brokered-single-broker"
        in refused.value.message
    )


FREE_ONLY = NamespaceBounds(plans="standard-free")


def annotated(namespace: str, plans: str) -> Namespace:
    metadata = NamespaceMetadata(name=namespace, annotations={PLANS: plans})
    return Namespace(metadata=metadata)


async def test_space_with_a_plan_withheld_from_its_namespace_is_denied(store: MemoryStore) -> None:
    admission = Admission(store, exposed=False, bounds=FREE_ONLY)
    await admission.create_defaults(platform_resources())
    made = await admission.create(space())
    assert made.document()["spec"]["plan"] == "standard-free", "the first plan that is allowed"
    with pytest.raises(Denied) as refused:
        await admission.replace(space(plan="standard-unlimited"))
    assert refused.value.code == Code.PLAN_WITHHELD
    assert "may not use 'standard-unlimited', only standard-free" in refused.value.message
    assert "annotation enmasse.io/plans of the namespace" in refused.value.message
    with pytest.raises(Denied, match="may not use any plan for type brokered, only"):
        await admission.create(space("b", type_="brokered"))
    # Recreating the space does not help.
    await admission.delete(made.key)
    with pytest.raises(Denied):
        await admission.create(space(plan="standard-unlimited"))


async def test_namespace_annotation_sets_the_allowed_plans(
    store: MemoryStore,
) -> None:
    admission = Admission(store, exposed=False, bounds=FREE_ONLY)
    await admission.create_defaults(platform_resources())
    await admission.apply([annotated("paid", "standard-small, standard-medium")])
    await admission.apply([annotated("all", "*"), annotated("none", "")])
    for namespace, plan, allowed in (
        ("paid", "standard-medium", True),
        ("paid", "standard-free", False),
        ("all", "standard-unlimited", True),
        ("none", "standard-free", False),
        ("other", "standard-free", True),
    ):
        wanted = space(plan.partition("-")[2], plan=plan).with_metadata(namespace=namespace)
        if allowed:
            await admission.create(wanted)
            continue
        with pytest.raises(Denied):
            await admission.create(wanted)
    with pytest.raises(Denied, match="may not use any plan for type standard; choose another"):
        await admission.create(space().with_metadata(namespace="none"))
    # A space keeps a plan that is no longer allowed, and its other fields may change.
    await admission.replace(annotated("paid", "standard-small"))
    kept = space("medium", plan="standard-medium", authentication="standard")
    await admission.replace(kept.with_metadata(namespace="paid"))
