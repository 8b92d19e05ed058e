"""A platform whose resources are in a real Kubernetes API server, where kubectl applies them."""

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from proton import Message
from proton.utils import BlockingConnection, LinkDetached

import proton_client
from kube.go_programs import BUILD_TIMEOUT_S, Kubectl, build
from kube.server import TOKEN, KubeServer
from platform_process import Platform, running
from proton_client import PASSWORD, exchange

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * BUILD_TIMEOUT_S + 300)]

ORDERS: dict[str, Any] = {
    "apiVersion": "enmasse.io/v1beta1",
    "kind": "Address",
    "metadata": {"name": "default.orders"},
    "spec": {"type": "queue", "address": "orders", "plan": "standard-small-queue"},
}


@pytest.fixture
def kubectl(cluster: KubeServer, tmp_path: Path) -> Kubectl:
    """kubectl of the cluster's administrator: it speaks to the API server, not to EnMasse."""
    return Kubectl(build(), cluster.config(TOKEN), tmp_path)


@pytest.fixture
def platform(cluster: KubeServer, tmp_path: Path) -> Iterator[Platform]:
    with running(tmp_path / "data", environment={"ENMASSE_STORE": cluster.url}) as platform:
        yield platform


def test_an_address_applied_to_the_cluster_is_served(platform: Platform, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(ORDERS))
    kubectl("wait", "--for=condition=Ready", "address/default.orders", "--timeout=30s")
    head, row = kubectl("get", "addresses", "default.orders").splitlines()
    assert head.split()[:4] == ["NAME", "ADDRESS", "TYPE", "PLAN"]
    assert "Active" in row
    exchange(platform, "orders")
    # Both APIs show the same resource.
    shown = json.loads(platform.enmasse("get", "addresses", "orders", "-o", "json"))
    there = json.loads(kubectl("get", "address", "default.orders", "-o", "json"))
    for name in ("uid", "generation", "creationTimestamp"):
        assert shown["metadata"][name] == there["metadata"][name]
    kubectl("delete", "address", "default.orders")
    with closing(BlockingConnection(platform.url(), timeout=30)) as connection:
        while True:
            try:
                connection.create_sender("orders").close()
            except LinkDetached as error:
                assert error.condition == "amqp:not-found"
                break


def test_address_created_by_command_is_stored_in_the_cluster(
    platform: Platform, kubectl: Kubectl
) -> None:
    said = platform.enmasse("create", "address", "letters", "--type", "queue")
    assert "created and ready" in said
    exchange(platform, "letters")
    assert "Active" in kubectl("get", "address", "default.letters")
    assert "Minimum time to live" in kubectl("explain", "address.spec.messageTtl.minimum")
    platform.enmasse("delete", "address", "letters", "--force")
    assert kubectl("get", "address", "default.letters", "--ignore-not-found") == ""


def test_stored_messages_survive_a_restart_with_a_kubernetes_store(
    cluster: KubeServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    environment = {"ENMASSE_STORE": cluster.url}
    with running(tmp_path / "data", environment=environment) as platform:
        kubectl("apply", "-f", "-", stdin=yaml.safe_dump(ORDERS))
        kubectl("wait", "--for=condition=Ready", "address/default.orders", "--timeout=30s")
        with closing(BlockingConnection(platform.url(), timeout=30)) as connection:
            connection.create_sender("orders").send(Message(body="kept"))
    with (
        running(tmp_path / "data", environment=environment) as platform,
        closing(BlockingConnection(platform.url(), timeout=30)) as connection,
    ):
        receiver = connection.create_receiver("orders")
        assert receiver.receive(timeout=30).body == "kept"
        receiver.accept()


def test_manifests_without_a_plan_and_with_a_password_are_served(
    platform: Platform, kubectl: Kubectl
) -> None:
    """In a cluster the platform itself adds the default plan and removes the password."""
    space = proton_client.SPACE.replace("default", "team").replace(
        "{type: standard}", "{type: standard, authenticationService: {type: standard}}"
    )
    documents = [proton_client.user("alice", "orders"), proton_client.address("orders"), space]
    text = "---\n".join(documents).replace("default.", "team.")
    # In a cluster users belong to the API group `user.enmasse.io`.
    text = text.replace("enmasse.io/v1beta1\nkind: Mess", "user.enmasse.io/v1beta1\nkind: Mess")
    for _ in range(2):
        kubectl("apply", "-f", "-", stdin=text)
        for one in ("addressspace/team", "address/team.orders", "messaginguser/team.alice"):
            kubectl("wait", "--for=condition=Ready", one, "--timeout=30s")
    shown = kubectl("get", "enmasse", "-A", "-o", "yaml", "--show-managed-fields")
    assert base64.b64encode(PASSWORD.encode()).decode() not in shown
    assert "plan: standard-small-queue" in shown
    exchange(
        platform,
        "orders",
        user="alice@team",
        password=PASSWORD,
        allowed_mechs="SCRAM-SHA-256",
    )


def test_inadmissible_address_in_the_cluster_is_not_ready_with_a_reason(
    platform: Platform, kubectl: Kubectl
) -> None:
    spec = ORDERS["spec"]
    wrong = {
        "default.twin": (spec, "already"),
        "default.none": (spec | {"address": "none", "plan": "no-such-plan"}, "no-such-plan"),
        "nowhere.orders": (spec, "address space 'nowhere' does not exist"),
        "default.sub": ({"type": "subscription", "address": "sub", "topic": "lost",
                         "plan": "standard-small-subscription"}, "lost"),
        "default.bad": (spec | {"address": "bad", "partitions": 0}, "partitions"),
    }  # fmt: skip
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(ORDERS))
    kubectl("wait", "--for=condition=Ready", "address/default.orders", "--timeout=30s")
    for name, (one, told) in wrong.items():
        document = ORDERS | {"metadata": {"name": name}, "spec": one}
        refused = kubectl.say("apply", "-f", "-", stdin=yaml.safe_dump(document))
        if refused.code != 0:
            assert told in refused.err  # refused by the schema of the definition
            continue
        kubectl("wait", "--for=condition=Ready=false", f"address/{name}", "--timeout=30s")
        message = kubectl("get", "address", name, "-o", "jsonpath={.status.messages[0]}")
        assert told in message
    exchange(platform, "orders")


def test_api_tokens_are_secrets_of_the_cluster(platform: Platform, kubectl: Kubectl) -> None:
    token = platform.enmasse("token", "create", "ci", "--grant", "tenant-edit=shop").strip()
    assert "tenant-edit shop" in platform.enmasse("token", "list")
    where = ("-n", "enmasse-tokens")
    secret = json.loads(kubectl(*where, "get", "secret", "ci", "-o", "json"))
    assert secret["type"] == "enmasse.io/token"
    assert token not in json.dumps(secret)
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{platform.url('http')}/apis/enmasse.io/v1beta1/namespaces/{{}}/addresses"

    def answer(namespace: str = "shop") -> int:
        return httpx2.get(url.format(namespace), headers=headers).status_code

    assert (answer(), answer("default")) == (200, 403)
    # Each change by kubectl applies at once: another namespace, the first one, a bad expiry.
    for data, expected in (
        ({"tenant-edit": "default"}, 403),
        ({"tenant-edit": "shop"}, 200),
        ({"expires": "tomorrow"}, 401),
    ):
        patch = json.dumps({"stringData": data})
        kubectl(*where, "patch", "secret", "ci", "-p", patch)
        while answer() != expected:
            pass
    assert "data.expires: 'tomorrow' is no moment" in platform.enmasse("token", "list")
    kubectl(*where, "patch", "secret", "ci", "-p", '{"data": {"expires": null}}')
    while answer() != 200:
        pass
    platform.enmasse("token", "delete", "ci")
    assert answer() == 401
    assert kubectl(*where, "get", "secret", "ci", "--ignore-not-found") == ""
