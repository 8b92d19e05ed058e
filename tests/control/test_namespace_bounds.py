"""One namespace cannot fill the store for the others."""

import asyncio

import pytest

from doubles import TestClock, queue, space
from enmasse.base.errors import Code, EnMasseError, Exhausted
from enmasse.control import Admission
from enmasse.control.policies import NamespaceBounds
from enmasse.resources import ConfigMap, Key, Secret
from enmasse.resources.core import NamedMetadata
from enmasse.store import MemoryStore

BOUNDS = NamespaceBounds(resources=3, data_bytes=100)


@pytest.fixture
async def admission() -> Admission:
    admission = Admission(MemoryStore(TestClock()), exposed=False, bounds=BOUNDS)
    await admission.apply([space(), space("far").with_metadata(namespace="far")])
    return admission


def secret(name: str, text: str = "", namespace: str = "default") -> Secret:
    return Secret(metadata=NamedMetadata(name=name, namespace=namespace), data={"x": text})


async def test_one_of_a_kind_too_many_is_refused_with_the_mend(admission: Admission) -> None:
    for name in "abc":
        await admission.create(queue(f"default.{name}", address=name))
    with pytest.raises(Exhausted) as refused:
        await admission.create(queue("default.d", address="d"))
    assert refused.value.code == Code.QUOTA_EXCEEDED
    assert "namespace 'default' would hold 4 Address of 3; delete some" in refused.value.message
    assert "raise the setting namespace-resources-max" in refused.value.message
    # Another kind and another namespace have room of their own.
    await admission.create(secret("s"))
    await admission.create(queue("far.d", address="d").with_metadata(namespace="far"))
    # What is there can be changed, and what goes makes room.
    await admission.replace(queue("default.a", address="a", messageTtl={"maximum": 5000}))
    await admission.delete(Key("Address", "default", "default.a"))
    await admission.create(queue("default.d", address="d"))


async def test_requests_at_once_do_not_pass_the_bound_together(admission: Admission) -> None:
    async def make(number: int) -> bool:
        try:
            await admission.create(queue(f"default.q{number}", address=f"q{number}"))
        except EnMasseError:
            return False
        return True

    assert sum(await asyncio.gather(*map(make, range(10)))) == 3


async def test_one_request_does_not_pass_the_bound(admission: Admission) -> None:
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


async def test_what_is_beyond_a_smaller_bound_stays_and_may_shrink() -> None:
    store = MemoryStore(TestClock())
    await Admission(store, exposed=False).apply([secret(name, "x" * 40) for name in "abcde"])
    admission = Admission(store, exposed=False, bounds=BOUNDS)
    await admission.replace(secret("a", "x" * 20))
    with pytest.raises(Exhausted):
        await admission.replace(secret("a", "x" * 24))
    with pytest.raises(Exhausted):
        await admission.create(secret("f"))
