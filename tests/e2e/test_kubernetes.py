"""A platform whose resources are in a real Kubernetes API server, where kubectl applies them."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from proton import Message
from proton.utils import BlockingConnection, LinkDetached

from kube.built import BUILD_TIMEOUT_S, Kubectl, build
from kube.server import TOKEN, KubeServer
from running import Platform, running

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


def exchange(platform: Platform, address: str) -> None:
    with closing(BlockingConnection(platform.url(), timeout=30)) as connection:
        connection.create_sender(address).send(Message(body="hello"))
        receiver = connection.create_receiver(address)
        assert receiver.receive(timeout=30).body == "hello"
        receiver.accept()


def test_an_address_applied_to_the_cluster_is_served(platform: Platform, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(ORDERS))
    kubectl("wait", "--for=condition=Ready", "address/default.orders", "--timeout=30s")
    head, row = kubectl("get", "addresses", "default.orders").splitlines()
    assert head.split()[:4] == ["NAME", "ADDRESS", "TYPE", "PLAN"]
    assert "Active" in row
    exchange(platform, "orders")
    # The one API shows what the other has.
    shown = json.loads(platform.enmasse("get", "addresses", "orders", "-o", "json"))["items"][0]
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


def test_an_address_of_the_command_line_is_one_of_the_cluster(
    platform: Platform, kubectl: Kubectl
) -> None:
    said = platform.enmasse("create", "address", "letters", "--type", "queue")
    assert "created and ready" in said
    exchange(platform, "letters")
    assert "Active" in kubectl("get", "address", "default.letters")
    assert "Shortest life" in kubectl("explain", "address.spec.messageTtl.minimum")
    platform.enmasse("delete", "address", "letters", "--force")
    assert kubectl("get", "address", "default.letters", "--ignore-not-found") == ""


def test_a_platform_finds_again_what_it_served(
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


def test_one_that_stands_by_takes_over(cluster: KubeServer, tmp_path: Path) -> None:
    environment = {"ENMASSE_STORE": cluster.url}
    with (
        running(tmp_path / "one", environment=environment) as one,
        running(tmp_path / "other", environment=environment) as other,
    ):
        assert set(other.endpoints) == {"http", "https"}
        assert "created and ready" in other.enmasse("create", "address", "a", "--type", "queue")
        one.kill()
        # Nobody but a leader makes an address ready, and the command waits for that.
        assert "created and ready" in other.enmasse("create", "address", "b", "--type", "queue")
