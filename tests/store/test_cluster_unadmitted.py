"""Resources that kubectl writes past admission: completed, or refused in their status."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

import doubles
from doubles import TestClock
from enmasse.auth.passwords import verify
from enmasse.base.clock import SystemClock
from enmasse.control import Admission, Manager
from enmasse.control.admission_checks import PLANS
from enmasse.control.default_plans import platform_resources
from enmasse.resources import Address, AddressSpace, Key, MessagingUser, Resource
from enmasse.resources.messaging_user import LAST_APPLIED
from enmasse.store import MemoryStore
from enmasse.store.kubernetes import KubernetesStore
from fake_engine import FakeEngine
from kube.go_programs import BUILD_TIMEOUT_S
from kube.server import KubeServer
from replicas import opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_TIMEOUT_S + 120)]

PATIENCE_S = 60
ENMASSE = "/apis/enmasse.io/v1beta1/namespaces/default"
ADDRESSES, SPACES = f"{ENMASSE}/addresses", f"{ENMASSE}/addressspaces"
USERS = "/apis/user.enmasse.io/v1beta1/namespaces/default/messagingusers"
ALICE = Key("MessagingUser", "default", "default.alice")
MERGE = "application/merge-patch+json"
SECRET = base64.b64encode(b"open sesame").decode()
Document = dict[str, Any]


@pytest.fixture
async def store(cluster: KubeServer) -> AsyncIterator[KubernetesStore]:
    """A store that leads, follows, and completes resources written past admission."""
    async with opened(cluster.url) as store:
        assert isinstance(store, KubernetesStore)
        admission = Admission(store, exposed=False)
        await admission.create_defaults(platform_resources())
        assert await store.leadership.take()
        completing = asyncio.ensure_future(store.complete(admission.completed))
        yield store
        completing.cancel()
        await asyncio.gather(completing, return_exceptions=True)


def user(**authentication: object) -> Document:
    """A user as `kubectl apply` sends it, with its copy in an annotation."""
    spec = {
        "username": "alice",
        "authentication": {"type": "password"} | authentication,
        "authorization": [{"addresses": ["orders"], "operations": ["send"]}],
    }
    document: Document = doubles.document("MessagingUser", "default.alice", spec)
    document["apiVersion"] = "user.enmasse.io/v1beta1"
    document["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(document)}
    return document


async def until(look: Any) -> Any:
    """Call `look`, a request to the server, until it returns a result."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await asyncio.to_thread(look)):
            pass
    return found


async def kept(cluster: KubeServer, generation: int = 1) -> Document:
    """Wait until the user on the server was changed after kubectl; return it."""

    def look() -> Document | None:
        found = cluster.request("GET", f"{USERS}/default.alice")
        return found if found["metadata"]["generation"] > generation else None

    found: Document = await until(look)
    return found


async def status_of(cluster: KubeServer, path: str, generation: int) -> Document:
    def look() -> Document | None:
        status: Document = cluster.request("GET", path).get("status") or {}
        return status if status.get("observedGeneration") == generation else None

    found: Document = await until(look)
    return found


def served(store: KubernetesStore) -> MessagingUser:
    found = store.get(ALICE)
    assert isinstance(found, MessagingUser)
    return found


async def test_password_written_by_kubectl_is_replaced_by_verifiers(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    cluster.request("POST", USERS, user(password=SECRET))
    found = await kept(cluster)
    assert SECRET not in json.dumps(found)
    authentication = found["spec"]["authentication"]
    assert authentication["type"] == "password"
    assert found["spec"]["authorization"] == user()["spec"]["authorization"]
    verifiers = served(store).spec.authentication.verifiers
    assert verify("open sesame", verifiers)
    # kubectl applies the same file again: the verifiers stay.
    again = user(password=SECRET)
    patch = {"metadata": again["metadata"], "spec": again["spec"]}
    before = found["metadata"]["generation"]
    cluster.request("PATCH", f"{USERS}/default.alice", patch, MERGE)
    found = await kept(cluster, before + 1)
    assert SECRET not in json.dumps(found)
    assert served(store).spec.authentication.verifiers == verifiers
    # Another password gets new verifiers.
    patch["spec"]["authentication"]["password"] = base64.b64encode(b"other").decode()
    cluster.request("PATCH", f"{USERS}/default.alice", patch, MERGE)
    await kept(cluster, before + 3)
    assert verify("other", served(store).spec.authentication.verifiers)


async def test_user_replaced_without_a_password_keeps_its_verifiers(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    cluster.request("POST", USERS, user(password=SECRET))
    found = await kept(cluster)
    without = user()
    without["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
    cluster.request("PUT", f"{USERS}/default.alice", without)
    await kept(cluster, found["metadata"]["generation"] + 1)
    assert verify("open sesame", served(store).spec.authentication.verifiers)


async def test_user_without_a_password_gets_a_failed_status(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    cluster.request("POST", USERS, user())
    status = await status_of(cluster, f"{USERS}/default.alice", 1)
    assert (status["phase"], status["conditions"][0]["reason"]) == ("Failed", "Refused")
    assert "spec.authentication.password: is required for a new user" in status["messages"][0]
    assert store.get(ALICE) is None
    cluster.request(
        "PATCH",
        f"{USERS}/default.alice",
        {"spec": {"authentication": {"password": SECRET}}},
        MERGE,
    )
    assert SECRET not in json.dumps(await kept(cluster, 2))
    assert verify("open sesame", served(store).spec.authentication.verifiers)


@pytest.mark.parametrize(
    ("authentication", "told"),
    [
        ({"password": "not base64 at all"}, "must be the base64"),
        ({"type": "nothing", "password": SECRET}, "is not a type of authentication"),
    ],
)
async def test_password_of_a_refused_user_is_removed(
    cluster: KubeServer, store: KubernetesStore, authentication: Document, told: str
) -> None:
    cluster.request("POST", USERS, user(**authentication))
    found = await kept(cluster)
    status = await status_of(cluster, f"{USERS}/default.alice", 2)
    assert authentication["password"] not in json.dumps(found)
    assert told in status["messages"][0] and "set it again" in status["messages"][0]
    assert authentication["password"] not in json.dumps(status)
    assert store.get(ALICE) is None


async def test_password_of_a_federated_user_is_removed(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    cluster.request("POST", USERS, user(type="federated", password=SECRET))
    assert SECRET not in json.dumps(await kept(cluster))
    await until(lambda: store.get(ALICE))
    assert not served(store).spec.authentication.verifiers


async def test_user_with_an_unreplaced_password_is_not_listed(cluster: KubeServer) -> None:
    cluster.request("POST", USERS, user(password=SECRET))
    async with opened(cluster.url) as store:
        assert ALICE not in [one.key for one in store.list()]


async def test_missing_plan_is_filled_in_once_one_is_available(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    address = doubles.document("Address", "default.orders", {"type": "queue", "address": "orders"})
    made = cluster.request("POST", ADDRESSES, address)
    # The space is created later, since files are applied in any order.
    space = {"type": "standard", "authenticationService": {"type": "standard"}}
    cluster.request("POST", SPACES, doubles.document("AddressSpace", "default", space))
    found = await until(
        lambda: cluster.request("GET", f"{ADDRESSES}/default.orders")["spec"].get("plan")
    )
    assert found == "standard-small-queue"
    assert cluster.request("GET", f"{SPACES}/default")["spec"]["plan"] == "standard-unlimited"
    orders, home = (
        Key("Address", "default", "default.orders"),
        Key("AddressSpace", "default", "default"),
    )

    def has_plan(key: Key, plan: str) -> bool:
        one = store.get(key)
        return isinstance(one, Address | AddressSpace) and one.spec.plan == plan

    await until(lambda: has_plan(orders, found) and has_plan(home, "standard-unlimited"))
    now = store.get(orders)
    assert now is not None and now.metadata.uid == made["metadata"]["uid"]
    # An address updated without a plan keeps its plan.
    patch = {"spec": {"plan": "standard-large-queue"}}
    cluster.request("PATCH", f"{ADDRESSES}/default.orders", patch, MERGE)
    await until(lambda: has_plan(orders, "standard-large-queue"))
    cluster.request("PATCH", f"{ADDRESSES}/default.orders", {"spec": {"plan": None}}, MERGE)
    await until(
        lambda: (
            cluster.request("GET", f"{ADDRESSES}/default.orders")["spec"].get("plan")
            == "standard-large-queue"
        )
    )


async def test_space_reports_plan_missing_until_its_namespace_may_use_a_plan(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    default = "/api/v1/namespaces/default"
    none = {"metadata": {"annotations": {PLANS: ""}}}
    cluster.request("PATCH", default, none, MERGE)
    await until(lambda: PLANS in annotations_of(store.get(Key("Namespace", "", "default"))))
    engine, clock = FakeEngine(), TestClock()
    manager = Manager(store, engine, clock, MemoryStore(clock))
    space = {"type": "standard", "authenticationService": {"type": "standard"}}
    cluster.request("POST", SPACES, doubles.document("AddressSpace", "poor", space))
    await until(lambda: store.get(Key("AddressSpace", "default", "poor")))
    await manager.catch_up()
    status = await status_of(cluster, f"{SPACES}/poor", 1)
    assert (status["phase"], status["conditions"][0]["reason"]) == ("Pending", "PlanMissing")
    assert cluster.request("GET", f"{SPACES}/poor")["spec"].get("plan") is None
    one = {"metadata": {"annotations": {PLANS: "standard-free"}}}
    cluster.request("PATCH", default, one, MERGE)
    await until(
        lambda: cluster.request("GET", f"{SPACES}/poor")["spec"].get("plan") == "standard-free"
    )


def annotations_of(resource: Resource | None) -> Mapping[str, str]:
    return resource.metadata.annotations if resource else {}


async def test_anonymous_space_in_an_exposed_cluster_is_closed_and_reported(
    cluster: KubeServer,
) -> None:
    open_space = {
        "type": "standard",
        "plan": "standard-small",
        "authenticationService": {"type": "none"},
    }
    document = doubles.document("AddressSpace", "open", open_space)
    async with opened(cluster.url) as store:
        admission = Admission(store, exposed=True)
        await admission.create_defaults(platform_resources())
        assert store.leadership and await store.leadership.take()
        cluster.request("POST", SPACES, document)
        await until(lambda: store.get(Key("AddressSpace", "default", "open")))
        await admission.check()  # A process still starts with the open space.
        closed = doubles.space("closed", authentication="standard")
        await admission.create(closed)  # Other changes are still possible.
        engine, clock = FakeEngine(), TestClock()
        manager = Manager(store, engine, clock, MemoryStore(clock), exposed=True)
        await manager.catch_up()
        assert {one.authentication.type for one in engine.plan.spaces} == {"standard"}
        status = await status_of(cluster, f"{SPACES}/open", 1)
    assert status["conditions"][0]["reason"] == "SpaceExposed"
    assert "it would admit anonymous clients" in status["messages"][0]


async def test_invalid_secret_does_not_block_other_resources(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    # More finalizers than a resource of EnMasse may have.
    metadata = {
        "name": "odd",
        "labels": {"app": "enmasse"},
        "finalizers": [f"example.com/f{number}" for number in range(40)],
    }
    path = "/api/v1/namespaces/default/secrets"
    cluster.request("POST", path, {"metadata": metadata})
    cluster.request("POST", USERS, user(password=SECRET))
    await kept(cluster)
    assert store.get(Key("Secret", "default", "odd")) is None
    cluster.request("PATCH", f"{path}/odd", {"metadata": {"finalizers": None}}, MERGE)
    await until(lambda: store.get(Key("Secret", "default", "odd")))
    cluster.request("DELETE", f"{path}/odd")


async def test_completion_continues_after_a_server_restart(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    await asyncio.to_thread(cluster.stop)
    await asyncio.to_thread(cluster.start)
    cluster.request("POST", USERS, user(password=SECRET))
    assert SECRET not in json.dumps(await kept(cluster))
    again = await KubernetesStore.open(cluster.url, SystemClock())
    assert again.get(ALICE) == served(store)
    await again.close()
