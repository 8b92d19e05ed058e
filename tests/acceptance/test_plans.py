"""Plans under traffic, T-PL-6, T-PL-12 to T-PL-16, T-AS-3 and T-AS-14 of docs/acceptance.md.

The original moved queues between brokers and started routers. Here nothing moves, but the message
counts of its tests must hold too.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from proton import ConnectionException, LinkException, Message
from proton.utils import LinkDetached

from platform_process import Platform, Start
from proton_client import (
    TIMEOUT_S,
    address,
    connected,
    heard,
    numbered,
    received,
    send,
    take,
)

pytestmark = pytest.mark.timeout(180)

ADDRESSES = "/apis/enmasse.io/v1beta1/namespaces/default/addresses"
INFRA = "/apis/admin.enmasse.io/v1beta1/namespaces/enmasse-infra/standardinfraconfigs/small"
MERGE = {"content-type": "application/merge-patch+json"}
BATCH = 450
ROUTERS_FOR, ROUTERS_LESS = 210, 120
"""Numbers of anycast addresses that are created, and of those that are deleted."""

DECLARED = """
apiVersion: admin.enmasse.io/v1beta1
kind: StandardInfraConfig
metadata: {name: small}
spec: {version: "1", router: {policy: {maxMessageSize: 2000000}}}
---
apiVersion: admin.enmasse.io/v1beta2
kind: AddressPlan
metadata: {name: six-tenths}
spec: {addressType: queue, resources: {router: 0.001, broker: 0.6}}
---
apiVersion: admin.enmasse.io/v1beta2
kind: AddressPlan
metadata: {name: three-tenths}
spec: {addressType: queue, resources: {router: 0.001, broker: 0.3}}
---
apiVersion: admin.enmasse.io/v1beta2
kind: AddressSpacePlan
metadata: {name: scaled}
spec:
  addressSpaceType: standard
  infraConfigRef: small
  resourceLimits: {router: 10, broker: 20, aggregate: 30}
  addressPlans:
    - standard-small-queue
    - standard-medium-queue
    - standard-large-queue
    - standard-xlarge-queue
    - standard-small-anycast
    - standard-small-multicast
    - standard-small-topic
    - standard-small-subscription
    - standard-deadletter
    - six-tenths
    - three-tenths
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard, plan: scaled}
"""

QUEUES = {"six-0": "six-tenths", "six-1": "six-tenths", "three-0": "three-tenths",
          "three-1": "three-tenths"}  # fmt: skip


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform whose space has a plan and an infra config of its own."""
    path = tmp_path_factory.mktemp("documents") / "plans.yaml"
    parts = [
        DECLARED,
        *(address(name, plan=plan) for name, plan in QUEUES.items()),
        address("up", plan="standard-medium-queue"),
        address("down", plan="standard-xlarge-queue"),
        address("dead", "deadletter"),
        address("tried", deadletter="dead", messageRedelivery="{maximumDeliveryAttempts: 2}"),
        address("direct", "anycast"),
        address("copies", "multicast"),
        address("news", "topic"),
        address("kept", "subscription", topic="news"),
    ]
    path.write_text("---\n".join(parts))
    return start_platform("-f", path)


@pytest.fixture
def http(platform: Platform) -> Iterator[httpx2.Client]:
    token = (platform.data / "token").read_text().strip()
    headers = {"authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=platform.url("http"), headers=headers, timeout=60) as client:
        yield client


def until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "the condition does not hold in time"


def patch(http: httpx2.Client, path: str, spec: dict[str, Any]) -> None:
    answer = http.patch(path, json={"spec": spec}, headers=MERGE)
    assert answer.status_code == 200, answer.text


def change(http: httpx2.Client, name: str, plan: str) -> None:
    """Give an address another plan and wait until it is in force."""
    path = f"{ADDRESSES}/default.{name}"
    patch(http, path, {"plan": plan})
    until(
        lambda: (
            (status := http.get(path).json()["status"]).get("isReady", False)
            and status["planStatus"]["name"] == plan
        )
    )


def taken(platform: Platform, name: str, count: int) -> list[Any]:
    """Receive `count` messages of an address that has more."""
    with connected(platform) as connection:
        bodies = take(connection.create_receiver(name, credit=50), count)
        heard(connection)
        return bodies


def test_T_AS_3_each_address_type_passes_messages(platform: Platform) -> None:
    with connected(platform) as connection, ThreadPoolExecutor(1) as beside:
        for name in ("direct", "copies", "news"):
            receiver = connection.create_receiver(name, credit=10)
            sent = beside.submit(send, platform, name, *numbered(0, 10))
            assert take(receiver, 10) == list(range(10))
            heard(connection)
            sent.result()
            receiver.close()
    assert received(platform, "news::kept", 10) == list(range(10))
    send(platform, "up", *numbered(0, 10))
    assert received(platform, "up", 10) == list(range(10))


def test_T_AS_14_addresses_are_case_sensitive(platform: Platform, http: httpx2.Client) -> None:
    head = {"apiVersion": "enmasse.io/v1beta1", "kind": "Address"}
    for number, name in enumerate(("Orders", "orders")):
        spec = {"address": name, "type": "queue", "plan": "standard-small-queue"}
        body = head | {"metadata": {"name": f"default.case-{number}"}, "spec": spec}
        assert http.post(ADDRESSES, json=body).status_code == 201
    until(lambda: all(_is_ready(http, f"case-{number}") for number in range(2)))
    for name in ("Orders", "orders"):
        send(platform, name, Message(body=name))
    for name in ("orders", "Orders"):
        assert received(platform, name, 1) == [name]


def test_T_PL_6_messages_survive_the_deletion_of_other_queues(
    platform: Platform, http: httpx2.Client
) -> None:
    for name in QUEUES:
        send(platform, name, *numbered(0, 350))
    for name in ("three-0", "six-0"):
        assert received(platform, name, 350) == list(range(350))
        assert http.delete(f"{ADDRESSES}/default.{name}").status_code == 200
    for name in ("three-1", "six-1"):
        assert received(platform, name, 350) == list(range(350))


@pytest.mark.parametrize("kind", ["anycast"])
def test_T_PL_12_messages_pass_while_addresses_are_created_and_deleted(
    platform: Platform, http: httpx2.Client, kind: str
) -> None:
    names = [f"many-{number}" for number in range(ROUTERS_FOR)]

    def passes(name: str) -> None:
        with connected(platform) as connection, ThreadPoolExecutor(1) as beside:
            receiver = connection.create_receiver(name, credit=1)
            sent = beside.submit(send, platform, name, Message(body=name))
            assert take(receiver, 1) == [name]
            heard(connection)
            sent.result()

    head = {"apiVersion": "enmasse.io/v1beta1", "kind": "Address"}
    for number, name in enumerate(names):
        spec = {"address": name, "type": kind, "plan": "standard-small-anycast"}
        made = http.post(
            ADDRESSES, json=head | {"metadata": {"name": f"default.{name}"}, "spec": spec}
        )
        assert made.status_code == 201, made.text
        if number % 50 == 0:
            passes("direct")
    until(lambda: _is_ready(http, names[-1]))
    passes(names[-1])
    for name in names[:ROUTERS_LESS]:
        assert http.delete(f"{ADDRESSES}/default.{name}").status_code == 200
    for name in (names[ROUTERS_LESS], names[-1], "direct"):
        passes(name)


def _is_ready(http: httpx2.Client, name: str) -> bool:
    found = http.get(f"{ADDRESSES}/default.{name}").json()
    return bool(found["status"].get("isReady"))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("up", ["large", "xlarge"]), ("down", ["large", "small"])],
    ids=["T_PL_13", "T_PL_14"],
)
def test_T_PL_13_14_plan_change_of_a_queue_loses_no_message(
    platform: Platform, http: httpx2.Client, name: str, sizes: list[str]
) -> None:
    sent, got = 0, []
    for size in sizes:
        send(platform, name, *numbered(sent, 4 * BATCH))
        sent += 4 * BATCH
        got += taken(platform, name, BATCH // 2)
        with ThreadPoolExecutor(2) as beside:
            changed = beside.submit(change, http, name, f"standard-{size}-queue")
            more = beside.submit(send, platform, name, *numbered(sent, BATCH))
            sent += BATCH
            got += taken(platform, name, 2 * BATCH)
            changed.result()
            more.result()
        send(platform, name, *numbered(sent, BATCH))
        sent += BATCH
    got += received(platform, name, sent - len(got))
    assert sorted(got) == list(range(sent))


def test_T_PL_15_16_infra_config_limits_the_message_size(
    platform: Platform, http: httpx2.Client
) -> None:
    def is_refused(size: int) -> bool:
        try:
            send(platform, "up", Message(body="x" * size))
        except (LinkException, LinkDetached, ConnectionException):
            return True
        assert received(platform, "up", 1) == ["x" * size]
        return False

    assert not is_refused(10_000)
    patch(http, INFRA, {"router": {"policy": {"maxMessageSize": 4096}}})
    until(lambda: is_refused(10_000))
    assert not is_refused(1_000)
    patch(http, INFRA, {"router": {"policy": {"maxMessageSize": 20_000}}})
    until(lambda: not is_refused(10_000))


def test_T_PL_16_infra_config_decides_if_rejected_messages_are_redelivered(
    platform: Platform, http: httpx2.Client
) -> None:
    def is_redelivered() -> bool:
        """Whether a rejected message is redelivered; it becomes a dead letter either way."""
        send(platform, "tried", Message(body="poison"))
        rejections = 0
        with connected(platform) as connection:
            receiver = connection.create_receiver("tried", credit=1)
            dead = connection.create_receiver("dead", credit=1)
            while not dead.fetcher.has_message:
                connection.wait(
                    lambda: receiver.fetcher.has_message or dead.fetcher.has_message,
                    timeout=TIMEOUT_S,
                )
                if receiver.fetcher.has_message:
                    receiver.receive(timeout=TIMEOUT_S)
                    receiver.reject()
                    rejections += 1
            assert take(dead, 1) == ["poison"]
            heard(connection)
        return rejections > 1

    assert not is_redelivered()
    patch(http, INFRA, {"broker": {"treatRejectAsUnmodifiedDeliveryFailed": True}})
    until(is_redelivered)
    patch(http, INFRA, {"broker": {"treatRejectAsUnmodifiedDeliveryFailed": False}})
    until(lambda: not is_redelivered())
