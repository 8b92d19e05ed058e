"""The console's paths on a running platform: login, messages, connections, live values."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest
from proton import Condition, Message
from proton.utils import BlockingConnection

from enmasse.api.messages.answers import OperationAnswer, SendAnswer
from platform_process import Platform

pytestmark = pytest.mark.timeout(180)
ADDRESSES = "/apis/enmasse.io/v1beta1/namespaces/default/addresses"
CONNECTIONS = "/apis/enmasse.io/v1beta1/namespaces/default/connections"


class Page:
    """A page of the console with a session."""

    def __init__(self, platform: Platform) -> None:
        link = platform.enmasse("console", "--print").strip()
        origin, _, code = link.partition("/console/login#code=")
        assert origin == platform.url("http")
        self.http = httpx2.Client(base_url=origin, trust_env=False, timeout=30)
        answer = self.http.post("/console/session", json={"code": code})
        assert answer.status_code == 201, answer.text
        self.session = answer.json()
        self.headers = {"X-CSRF-Token": self.session["csrf"], "Origin": origin}

    def get(self, path: str, **parameters: Any) -> Any:
        answer = self.http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: dict[str, Any], status: int = 200) -> Any:
        answer = self.http.post(path, json=body, headers=self.headers)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def page(platform: Platform) -> Iterator[Page]:
    opened = Page(platform)
    with closing(opened.http):
        yield opened


@pytest.fixture
def orders(platform: Platform) -> Iterator[str]:
    """An empty queue with a dead letter."""
    platform.enmasse("create", "address", "orders", "--type", "queue", "--deadletter", "deadletter")
    yield f"{ADDRESSES}/default.orders"
    platform.enmasse("delete", "address", "orders", "--force")
    platform.enmasse("purge", "deadletter")


def test_a_link_logs_in_once_and_says_what_the_caller_may_do(
    platform: Platform, page: Page
) -> None:
    assert page.session["isOwner"]
    assert page.session["may"]["operate"]
    assert page.session["platform"]["endpoints"]["amqp"]["port"] == platform.port("amqp")
    assert page.get("/console/session")["user"] == page.session["user"]
    with httpx2.Client(base_url=platform.url("http"), trust_env=False) as other:
        assert other.get("/console/session").status_code == 401
        assert other.get("/", follow_redirects=True).status_code == 200


def test_an_ended_session_ends_its_stream_within_two_seconds(
    platform: Platform, page: Page
) -> None:
    path = "/apis/enmasse.io/v1beta1/samples"
    with page.http.stream("GET", path, params={"follow": "true", "interval": "60"}) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: sample"
        begin = time.monotonic()
        page.http.delete("/console/session", headers=page.headers)
        rest = "\n".join(lines)
    assert time.monotonic() - begin < 2
    assert '{"reason": "session"}' in rest


def test_a_message_is_sent_and_read(page: Page, orders: str) -> None:
    message = {
        "body": {"n": 1},
        "encoding": "json",
        "properties": {"subject": "s"},
        "applicationProperties": {"k": 7, "flag": True},
    }
    sent = page.post(f"{orders}/send", {"message": message, "count": 3})
    assert (sent["messages"], sent["outcome"]) == (3, "accepted")
    SendAnswer.model_validate(sent, by_alias=True, by_name=False)
    found = page.post(f"{orders}/peek", {"form": "typed", "limit": 2})
    assert len(found["items"]) == 2
    first = found["items"][0]
    assert first["kind"] == "data"
    assert json.loads(base64.b64decode(first["raw"]["body"])) == {"n": 1}
    assert first["message"]["properties"]["content_type"] == "application/json"
    assert first["message"]["applicationProperties"] == {"k": 7, "flag": True}
    single = page.post(f"{orders}/peek", {"id": first["id"]})
    assert [one["id"] for one in single["items"]] == [first["id"]]
    rest = page.post(f"{orders}/peek", {"continue": found["continue"]})
    assert len(rest["items"]) == 1


def test_a_message_without_a_body_arrives_as_one(page: Page, orders: str) -> None:
    page.post(f"{orders}/send", {"message": {"encoding": "none", "properties": {"subject": "s"}}})
    (found,) = page.post(f"{orders}/peek", {"form": "typed"})["items"]
    assert found["kind"] == "none"
    assert found["message"]["body"] is None
    assert found["message"]["properties"]["subject"] == "s"


def test_a_message_to_an_address_without_a_consumer_times_out(page: Page) -> None:
    body = {"message": {"body": "x"}}
    answer = page.post(f"{ADDRESSES}/default.anycast/send", body, 504)
    assert "no consumer is ready" in answer["message"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "message"),
        ({"message": {"body": 1}}, "message.body"),
        ({"message": {"body": "=", "encoding": "base64"}}, "message.body"),
        ({"message": {"body": "x" * 70_000}}, "message.body"),
        ({"message": {"body": "x", "ttlMs": 0}}, "message.ttlMs"),
        ({"message": {"body": "x", "properties": {"message_id": "a"}}, "count": 2}, "count"),
    ],
)
def test_a_malformed_message_names_the_field(
    page: Page, orders: str, body: dict[str, Any], field: str
) -> None:
    answer = page.post(f"{orders}/send", body, 422)
    assert answer["details"]["causes"][0]["field"] == field


def reject(platform: Platform, count: int, description: str) -> None:
    """Send messages to the queue, and reject them."""
    with closing(BlockingConnection(platform.url(), timeout=20)) as connection:
        sender, receiver = connection.create_sender("orders"), connection.create_receiver("orders")
        for number in range(count):
            sender.send(Message(body=f"bad{number}"))
            receiver.receive(timeout=20)
            delivery = receiver.fetcher.unsettled.popleft()
            delivery.local.condition = Condition("app:bad", description)
            delivery.update(delivery.REJECTED)
            delivery.settle()
        connection.wait(lambda: True)


def dead_letters(page: Page, count: int) -> Any:
    """Return the groups once there are so many messages in all."""
    end = time.monotonic() + 20
    while True:
        found = page.post(f"{ADDRESSES}/default.deadletter/deadletters", {})
        if found["messages"] >= count or time.monotonic() > end:
            return found


def test_dead_letters_are_grouped_edited_and_redriven(
    platform: Platform, page: Page, orders: str
) -> None:
    reject(platform, 3, "it's bad")
    found = dead_letters(page, 3)
    (group,) = found["groups"]
    assert (group["cause"], group["origin"], group["messages"]) == ("rejected", "orders", 3)
    assert group["description"] == "it's bad"
    assert found["complete"]
    dead = f"{ADDRESSES}/default.deadletter"
    selected = page.post(f"{dead}/peek", {"filter": group["filter"]})
    assert len(selected["items"]) == 3
    assert page.post(f"{dead}/peek", {"filter": "m.[x-opt-dead-letter-cause] = 'x'"})["items"] == []
    number = group["ids"][1]
    edit = {"message": {"body": "mended", "applicationProperties": {"by": "hand"}}}
    tried = page.post(f"{dead}/redrive", {"id": number, "edit": edit, "dryRun": True})
    assert tried["messages"] == 1
    assert page.post(f"{orders}/peek", {})["items"] == []
    done = page.post(f"{dead}/redrive", {"id": number, "edit": edit})
    assert done["messages"] == 1
    (back,) = page.post(f"{orders}/peek", {})["items"]
    assert back["message"]["body"] == "mended"
    assert back["message"]["applicationProperties"] == {"by": "hand"}
    assert "annotations" not in back["message"]
    again = page.post(f"{dead}/redrive", {"id": number, "edit": edit}, 409)
    assert "is no dead letter here" in again["message"]
    assert dead_letters(page, 2)["messages"] == 2


def test_a_stream_is_read_by_offset_and_time(platform: Platform, page: Page) -> None:
    made = {
        "metadata": {"name": "default.readings"},
        "spec": {
            "address": "readings",
            "type": "topic",
            "plan": "standard-small-topic",
            "retention": {"bytes": 1_000_000},
        },
    }
    made["spec"].pop("plan")
    page.post(ADDRESSES, made, 201)
    platform.enmasse("wait", "address/readings", "--for", "condition=Ready", "--timeout", "20s")
    stream = f"{ADDRESSES}/default.readings"
    try:
        page.post(f"{stream}/send", {"message": {"body": "x"}, "count": 5})
        found = page.post(f"{stream}/peek", {"from": {"offset": 2}, "limit": 2})
        OperationAnswer.model_validate(found, by_alias=True, by_name=False)
        assert [one["offset"] for one in found["items"]] == [2, 3]
        rest = page.post(f"{stream}/peek", {"continue": found["continue"]})
        assert [one["offset"] for one in rest["items"]] == [4]
        assert "continue" not in rest
        since = {"time": found["items"][0]["enqueued"]}
        assert page.post(f"{stream}/peek", {"from": since})["items"]
        assert len(page.post(f"{stream}/peek", {})["items"]) == 5
        wrong = page.post(f"{stream}/peek", {"from": {"offset": 1}, "partition": 7}, 422)
        assert wrong["details"]["causes"][0]["field"] == "partition"
    finally:
        platform.enmasse("delete", "address", "readings", "--force")


def test_connections_have_links_and_are_closed(platform: Platform, page: Page, orders: str) -> None:
    with closing(BlockingConnection(platform.url(), timeout=20)) as connection:
        sender = connection.create_sender("orders", name="in")
        sender.send(Message(body="x"))
        connection.create_receiver("orders", credit=5, name="out")
        (one,) = page.get(CONNECTIONS, address="orders")["items"]
        assert one["tls"] is False
        assert one["linkCount"] == 2
        shown = page.get(f"{CONNECTIONS}/{one['id']}")
        by_role = {link["role"]: link for link in shown["links"]}
        assert by_role["sender"]["address"] == by_role["receiver"]["address"] == "orders"
        assert by_role["sender"]["deliveries"] == 1
        assert by_role["receiver"]["unsettled"] == 1
        assert by_role["receiver"]["credit"] == 4
        links = page.get(f"{ADDRESSES}/default.orders/links")["items"]
        assert {link["name"] for link in links} == {link["name"] for link in shown["links"]}
        answer = page.http.delete(f"{CONNECTIONS}/{one['id']}", headers=page.headers)
        assert answer.status_code == 200, answer.text
        with pytest.raises(Exception, match="administrator closed"):
            connection.wait(lambda: False, timeout=10)
    assert page.http.get(f"{CONNECTIONS}/{one['id']}").status_code == 404


def test_links_have_outcomes(platform: Platform, page: Page, orders: str) -> None:
    with closing(BlockingConnection(platform.url(), timeout=20)) as connection:
        sender = connection.create_sender("orders")
        receiver = connection.create_receiver("orders", credit=1)
        sender.send(Message(body="x"))
        receiver.receive(timeout=20)
        receiver.release(delivered=False)
        receiver.receive(timeout=20)
        receiver.release(delivered=True)
        receiver.receive(timeout=20)
        receiver.accept()
        # The node has read the outcomes when it answers what follows on the same connection.
        sender.send(Message(body="y"))
        links = page.get(f"{ADDRESSES}/default.orders/links")["items"]
        by_role = {link["role"]: link["outcomes"] for link in links}
        assert by_role == {
            "sender": {"accepted": 2, "rejected": 0, "released": 0, "modified": 0},
            "receiver": {"accepted": 1, "rejected": 0, "released": 1, "modified": 1},
        }


def test_a_trace_is_read_in_the_page(platform: Platform, page: Page, orders: str) -> None:
    with closing(BlockingConnection(platform.url(), timeout=20)) as connection:
        sender = connection.create_sender("orders")
        (one,) = page.get(CONNECTIONS, address="orders")["items"]
        path = f"{CONNECTIONS}/{one['id']}/trace"
        parameters = {"follow": "true", "frames": "2", "seconds": "20"}
        with page.http.stream("GET", path, params=parameters) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": tracing"
            sender.send(Message(body="confidential"))
            text = "\n".join(lines)
    assert text.count("event: frame") == 2
    assert "transfer" in text
    assert "confidential" not in text
    assert '{"reason": "frames"}' in text


def test_live_values_and_history(platform: Platform, page: Page, orders: str) -> None:
    page.post(f"{orders}/send", {"message": {"body": "x"}, "count": 4})
    end = time.monotonic() + 20
    while True:
        listed = page.get(ADDRESSES, sortBy="-stored", limit=1)
        (first,) = listed["items"]
        if first["status"]["statistics"]["stored"]["messages"] == 4 or time.monotonic() > end:
            break
    assert first["spec"]["address"] == "orders"
    overview = page.get("/apis/enmasse.io/v1beta1/overview")
    assert overview["addresses"]["total"] >= 6
    now_s = time.time()
    found = page.get(
        "/apis/enmasse.io/v1beta1/namespaces/default/query_range",
        query="enmasse_space_connections",
        start=now_s - 60,
        end=now_s,
        step=10,
    )
    assert found["status"] == "success"
