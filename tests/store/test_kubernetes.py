"""Stores of one cluster: concurrent writers, server restarts, and leadership."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

import doubles
from doubles import TestClock
from enmasse.auth.passwords import without_password
from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Conflict, Invalid, Unavailable
from enmasse.resources import Address, ConfigMap, Key, MessagingUser, Namespace, Secret
from enmasse.resources.core import NamedMetadata
from enmasse.resources.crd import definitions
from enmasse.store import EventType, Store, cluster_lease
from enmasse.store.cluster import Cluster
from enmasse.store.kubernetes import KubernetesStore
from kube.go_programs import BUILD_TIMEOUT_S
from kube.server import STRANGER, KubeServer, Refusal
from replicas import PATIENCE_S, active, address, opened, taken, until, until_done

ADDRESSES = "/apis/enmasse.io/v1beta1/namespaces/default/addresses"
MERGE = "application/merge-patch+json"
Pair = tuple[KubernetesStore, KubernetesStore]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_TIMEOUT_S + 120)]


@pytest.fixture
async def pair(cluster: KubeServer) -> AsyncIterator[Pair]:
    """Two stores of one cluster, each with its own connections."""
    async with opened(cluster.url) as one, opened(cluster.url) as other:
        assert isinstance(one, KubernetesStore) and isinstance(other, KubernetesStore)
        yield one, other


@pytest.fixture
async def store(pair: Pair) -> KubernetesStore:
    return pair[0]


def declared(name: str = "orders", **spec: Any) -> dict[str, Any]:
    """An address as kubectl sends it."""
    return {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": "Address",
        "metadata": {"name": f"default.{name}"},
        "spec": {"type": "anycast", "address": name} | spec,
    }


def key(name: str = "orders") -> Key:
    return Key("Address", "default", f"default.{name}")


def addresses(store: Store) -> list[str]:
    return [one.metadata.name for one in store.list("Address")]


async def until_true(document: Callable[[], object]) -> None:
    """Call `document`, a request to the server, until its result is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(document):
            pass


async def test_watch_returns_changes_written_by_kubectl(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    events = store.watch(store.version)
    cluster.request("POST", ADDRESSES, declared(plan="small"))
    patch = {"spec": {"plan": "large"}, "metadata": {"labels": {"team": "north"}}}
    cluster.request("PATCH", f"{ADDRESSES}/default.orders", patch, MERGE)
    cluster.request("DELETE", f"{ADDRESSES}/default.orders")
    seen = await taken(events, 3)
    assert [one.type for one in seen] == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]
    plans = [one.resource.spec.plan for one in seen if isinstance(one.resource, Address)]
    assert plans == ["small", "large", "large"]
    assert [one.before for one in seen] == [None, seen[0].resource, seen[1].resource]
    assert seen[1].resource.metadata.generation == 2


async def test_T_AS_15_store_recovers_after_a_restart_of_the_api_server(
    cluster: KubeServer, pair: Pair
) -> None:
    one, other = pair
    await one.put([address("a")])
    await other.refresh()
    events = other.watch(other.version)
    await asyncio.to_thread(cluster.stop)
    try:
        with pytest.raises(Unavailable) as refusal:
            await one.put([address("b")])
        assert refusal.value.code == Code.STORE_UNUSABLE
        with pytest.raises(Unavailable):
            await other.refresh()
        assert addresses(one) == ["default.a"]
    finally:
        await asyncio.to_thread(cluster.start)
    await until_done(one.put, [address("b")])
    assert (await taken(events, 1))[0].resource.metadata.name == "default.b"


async def test_store_lists_again_when_the_server_forgot_its_version(cluster: KubeServer) -> None:
    store = await KubernetesStore.open(cluster.url, SystemClock())
    kept, _changed, gone = await store.put([address("a"), address("b"), address("c")])
    events = store.watch(store.version)
    cluster.request("PATCH", f"{ADDRESSES}/default.b", {"spec": {"plan": "large"}}, MERGE)
    cluster.request("DELETE", f"{ADDRESSES}/default.c")
    cluster.request("POST", ADDRESSES, declared("d"))
    await asyncio.to_thread(cluster.forget)
    # The store starts to follow from a version that the server has forgotten.
    following = asyncio.ensure_future(store.follow())
    seen = await taken(events, 3)
    assert {(event.type, event.resource.metadata.name) for event in seen} == {
        (EventType.MODIFIED, "default.b"),
        (EventType.ADDED, "default.d"),
        (EventType.DELETED, "default.c"),
    }
    assert store.get(kept.key) == kept and store.get(gone.key) is None
    # Later changes are received as well.
    cluster.request("POST", ADDRESSES, declared("e"))
    assert (await taken(events, 1))[0].resource.metadata.name == "default.e"
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await store.close()


async def test_concurrent_status_write_does_not_conflict(pair: Pair) -> None:
    one, other = pair
    (made,) = await one.put([address("a")])
    assert await other.leadership.take()
    await other.refresh()
    for team in ("south", "east", "west"):
        # The other process writes the status after this one has checked its write.
        async with one.turn() as turn:
            await other.put_status([active(made).with_metadata(labels={}) if team == "south"
                                    else made.with_status(doubles.address().status)])  # fmt: skip
            (changed,) = await turn.put([address("a", team)])
        assert changed.metadata.labels == {"team": team}
        await other.refresh()


async def test_concurrent_spec_change_conflicts(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    await store.put([address("a")])
    async with store.turn() as turn:
        cluster.request("PATCH", f"{ADDRESSES}/default.a", {"spec": {"plan": "large"}}, MERGE)
        with pytest.raises(Conflict, match="has changed; read it again") as refusal:
            await turn.put([address("a", "south")])
    assert refusal.value.code == Code.VERSION_CONFLICT
    # The current state is visible at once for a retry.
    found = store.get(key("a"))
    assert isinstance(found, Address) and found.spec.plan == "large"
    assert found.metadata.labels == {"team": "north"}


async def test_concurrent_deletion_conflicts(cluster: KubeServer, store: KubernetesStore) -> None:
    await store.put([address("a")])
    async with store.turn() as turn:
        cluster.request("DELETE", f"{ADDRESSES}/default.a")
        with pytest.raises(Conflict):
            await turn.put([address("a", "south")])
    assert store.get(key("a")) is None
    (made,) = await store.put([address("a", "south")])
    assert made.metadata.generation == 1


async def test_write_of_several_resources_is_validated_before_any_is_written(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    # The server rejects a resource that this process does not know.
    cluster.request("POST", "/api/v1/namespaces/default/configmaps", {
        "metadata": {"name": "theirs"}})  # fmt: skip
    theirs = ConfigMap(metadata=NamedMetadata(name="theirs"))
    try:
        with pytest.raises(Conflict) as refusal:
            await store.put([address("a"), theirs])
        assert refusal.value.code == Code.ALREADY_EXISTS
        assert addresses(store) == []
        with pytest.raises(Refusal):
            cluster.request("GET", f"{ADDRESSES}/default.a")
    finally:
        cluster.request("DELETE", "/api/v1/namespaces/default/configmaps/theirs")


async def test_namespace_and_its_resource_are_created_in_one_write(store: KubernetesStore) -> None:
    new = Namespace.model_validate({"metadata": {"name": "shop-new"}})
    made = doubles.address("default.a", namespace="shop-new")
    namespace, found = await store.put([new, made])
    assert namespace.metadata.uid and found.metadata.namespace == "shop-new"
    await store.delete([found.key])


async def test_only_labelled_secrets_are_listed(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    path = "/api/v1/namespaces/default/secrets"
    cluster.request("POST", path, {"metadata": {"name": "theirs"}})
    marked = {"name": "marked", "labels": {"app": "enmasse"}}
    cluster.request("POST", path, {"metadata": marked, "data": {"a": "Yg=="}})
    secret = Secret(metadata=NamedMetadata(name="made", labels={"a": "b"}), data={"c": "ZA=="})
    (made,) = await store.put([secret])
    await until(lambda: store.get(Key("Secret", "default", "marked")), store)
    assert [one.metadata.name for one in store.list("Secret")] == ["made", "marked"]
    assert made.metadata.labels == {"a": "b"}
    stored = cluster.request("GET", f"{path}/made")["metadata"]
    assert stored["labels"] == {"a": "b", "app": "enmasse"}
    for name in ("theirs", "marked", "made"):
        cluster.request("DELETE", f"{path}/{name}")


async def test_user_is_stored_with_verifiers_and_without_a_password(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    user = doubles.user()
    (made,) = await store.put([without_password(user, None)])
    assert isinstance(made, MessagingUser) and made.spec.authentication.verifiers
    path = f"/apis/user.enmasse.io/v1beta1/namespaces/default/messagingusers/{made.metadata.name}"
    stored = cluster.request("GET", path)
    assert "password" not in stored["spec"]["authentication"]
    again = await KubernetesStore.open(cluster.url, SystemClock())
    assert again.get(made.key) == made
    await again.close()


async def test_invalid_resource_is_skipped_and_gets_a_failed_status(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    path = f"{ADDRESSES}/default.bad"
    cluster.request("POST", ADDRESSES, declared("bad", partitions=3))
    cluster.request("POST", ADDRESSES, declared("good"))
    await until(lambda: "default.good" in addresses(store), store)
    assert addresses(store) == ["default.good"]
    assert await store.leadership.take()
    cluster.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await until_true(lambda: cluster.request("GET", path).get("status"))
    status = cluster.request("GET", path)["status"]
    assert (status["phase"], status["isReady"]) == ("Failed", False)
    assert "partitions" in status["messages"][0]
    assert status["conditions"][0]["reason"] == "Refused"
    # A corrected resource is accepted.
    cluster.request("PATCH", path, {"spec": {"partitions": None}}, MERGE)
    await until(lambda: "default.bad" in addresses(store), store)


async def test_invalid_change_keeps_the_former_resource(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    path = f"{ADDRESSES}/default.orders"
    cluster.request("POST", ADDRESSES, declared())
    await until(lambda: store.get(key()), store)
    before = store.get(key())
    cluster.request("PATCH", path, {"spec": {"partitions": 3}}, MERGE)
    cluster.request("POST", ADDRESSES, declared("next"))
    await until(lambda: store.get(key("next")), store)
    assert store.get(key()) == before
    # A write through EnMasse corrects it too.
    (mended,) = await store.put([doubles.address("default.orders", labels={"a": "b"})])
    assert cluster.request("GET", path)["spec"] == {"type": "anycast", "address": "orders"}
    assert store.get(key()) == mended


async def test_open_fails_on_an_invalid_address_that_may_hold_messages(
    cluster: KubeServer, store: KubernetesStore
) -> None:
    cluster.request("POST", ADDRESSES, declared())
    path = f"{ADDRESSES}/default.orders"
    status = {"planStatus": {"name": "small", "partitions": 1, "resources": {}}}
    cluster.request("PATCH", f"{path}/status", {"status": status}, MERGE)
    cluster.request("PATCH", path, {"spec": {"partitions": 3}}, MERGE)
    with pytest.raises(Unavailable, match="may hold messages: correct Address default.orders"):
        await KubernetesStore.open(cluster.url, SystemClock())


async def test_replaced_leader_of_a_cluster_writes_no_status(
    cluster: KubeServer, pair: Pair
) -> None:
    one, other = pair
    (made,) = await one.put([address("a")])
    assert await one.leadership.take()
    # The lease expires while the leader hangs, and another process acquires it.
    lease = "/apis/coordination.k8s.io/v1/namespaces/enmasse-infra/leases/enmasse-leader"
    cluster.request("PATCH", lease, {"spec": {"holderIdentity": ""}}, MERGE)
    assert await other.leadership.take()
    with pytest.raises(Unavailable) as refusal:
        await one.put_status([active(made)])
    assert refusal.value.code == Code.STANDING_BY
    with pytest.raises(Unavailable) as lost:
        async with asyncio.timeout(PATIENCE_S):
            await one.leadership.keep(None)
    assert lost.value.code == Code.STANDING_BY
    # The former leader stays out when the lease is free again: another leader may have acted.
    await other.leadership.close()
    assert not await one.leadership.take()


async def test_a_leader_that_is_killed_is_replaced(cluster: KubeServer) -> None:
    clock = TestClock()
    one = await KubernetesStore.open(cluster.url, SystemClock())
    async with opened(cluster.url, clock) as other:
        assert await one.leadership.take()
        assert not await other.leadership.take()
        clock.advance(cluster_lease.LEASE_S - 1)
        assert not await other.leadership.take()
        assert await one.leadership.take()  # renewed
        clock.advance(2)
        assert not await other.leadership.take()
        clock.advance(cluster_lease.LEASE_S + 1)
        assert await other.leadership.take()
        assert not await one.leadership.take()
    await one.close()


async def test_abandoned_turn_expires(cluster: KubeServer) -> None:
    async with AsyncExitStack() as stack:
        hung = TestClock()
        one = await stack.enter_async_context(opened(cluster.url, hung))
        clock = TestClock()  # The clock of the waiting store, which advances in its sleeps.
        other = await stack.enter_async_context(opened(cluster.url, clock))
        async with one.turn() as turn:
            (made,) = await other.put([address("b")])
            assert clock.elapsed_s > cluster_lease.TURN_S
            # The store that hung may still write a resource that the other did not change.
            await turn.put([address("a")])
        # A store that notices the delay checks its turn, and writes nothing.
        async with one.turn() as turn:
            await other.put([address("c")])
            hung.advance(cluster_lease.RENEW_TURN_S + 1)
            with pytest.raises(Unavailable, match="lost the write lock"):
                await turn.put([address("d")])
        await other.refresh()
        assert key("d") not in {one.key for one in other.list()}
        assert {made.key, key("a")} <= {one.key for one in other.list()}


async def test_writer_to_a_cluster_gives_up_waiting_for_a_turn(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_lease, "TURN_WAIT_S", 0.1)
    one, other = pair
    async with one.turn() as turn:
        with pytest.raises(Unavailable, match="another writer has held") as refusal:
            await other.put([address("b")])
        assert refusal.value.retry_after_s == 1.0
        await turn.put([address("a")])
    await other.put([address("b")])


async def test_definitions_are_installed_once(cluster: KubeServer) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    gone = [one["metadata"]["name"] for one in definitions()]
    store = await KubernetesStore.open(cluster.url, SystemClock())
    await store.close()
    found = {one["metadata"]["name"]: one for one in cluster.request("GET", path)["items"]}
    for name in gone:
        conditions = {one["type"]: one["status"] for one in found[name]["status"]["conditions"]}
        assert conditions["Established"] == conditions["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in conditions
    before = {name: one["metadata"]["resourceVersion"] for name, one in found.items()}
    await (await KubernetesStore.open(cluster.url, SystemClock())).close()
    now = cluster.request("GET", path)["items"]
    assert before == {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in now}


async def test_missing_permission_is_named_in_the_error(cluster: KubeServer) -> None:
    await (await KubernetesStore.open(cluster.url, SystemClock())).close()
    url = f"kubernetes://?kubeconfig={cluster.config(STRANGER)}"
    with pytest.raises(Unavailable, match="customresourcedefinitions.* is forbidden: User"):
        await KubernetesStore.open(url, SystemClock())


async def test_error_messages_contain_no_token(cluster: KubeServer) -> None:
    url = f"kubernetes://?kubeconfig={cluster.config('wrong-secret')}"
    with pytest.raises(Unavailable, match="Unauthorized") as refusal:
        await KubernetesStore.open(url, SystemClock())
    assert "wrong-secret" not in str(refusal.value).replace(str(cluster.folder), "")


def test_api_server_is_verified_by_the_ca_of_the_kubeconfig(cluster: KubeServer) -> None:
    path = cluster.config("other")
    text = path.read_text()
    verified = Cluster(f"kubernetes://?kubeconfig={path}", SystemClock()).tls()
    assert verified.check_hostname and verified.verify_mode == ssl.CERT_REQUIRED
    assert len(verified.get_ca_certs() or [1]) == 1
    for wrong, told in (
        ("insecure-skip-tls-verify: true", "set the CA"),
        ("certificate-authority: nowhere", "certificate-authority of the kubeconfig"),
    ):
        path.write_text(text.replace("certificate-authority: certs/apiserver.crt", wrong))
        with pytest.raises(Invalid, match=told):
            Cluster(f"kubernetes://?kubeconfig={path}", SystemClock())


async def test_field_unknown_to_an_old_definition_is_reported_with_a_remedy(
    cluster: KubeServer,
) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pipelines.enmasse.io"
    async with opened(cluster.url) as store:
        (made,) = await store.put([address("a")])
        assert isinstance(made, Address)
        # The request has a field that the definition on the server lacks.
        kind = store._kinds["Address"]  # type: ignore[union-attr]
        body = kind.document(made, version=None, uid=None) | {"later": 1}
        with pytest.raises(Unavailable, match="enmasse crds | kubectl apply"):
            await store._api.write("PUT", kind.one(made.key), body)  # type: ignore[union-attr]
    assert cluster.request("GET", path)["kind"] == "CustomResourceDefinition"


async def test_api_server_rejects_changes_of_immutable_fields(cluster: KubeServer) -> None:
    async with opened(cluster.url) as store:
        await store.put([address("a")])
        for spec in ({"type": "queue"}, {"address": "b"}, {"topic": "c"}):
            with pytest.raises(Refusal, match="cannot change"):
                cluster.request("PATCH", f"{ADDRESSES}/default.a", {"spec": spec}, MERGE)


async def test_deletion_is_recorded_without_following(cluster: KubeServer) -> None:
    store = await KubernetesStore.open(cluster.url, SystemClock())
    (made,) = await store.put([address("a")])
    since = store.version
    await store.delete([made.key])
    (again,) = await store.put([address("a")])
    assert again.metadata.uid != made.metadata.uid
    types = [event.type for event in store.changes(since)]
    assert types == [EventType.DELETED, EventType.ADDED]
    await store.close()


async def test_missing_kubeconfig_is_reported() -> None:
    with pytest.raises(Invalid, match="kubeconfig not found"):
        await KubernetesStore.open("kubernetes://?kubeconfig=/nowhere", SystemClock())
