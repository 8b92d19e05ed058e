"""Connections and links of a namespace."""

from typing import Any

import pytest

from asgi_platform import ADDRESSES, SPACES, Served, bearer, body
from doubles import queue, space
from enmasse.engines import Connection, LinkOutcomes, LinkStatistics

BASE = "/apis/enmasse.io/v1beta1/namespaces"
MINE = f"{BASE}/default/connections"


@pytest.fixture
async def connected(served: Served) -> Served:
    """Two connections of the namespace and one of another; the first has a link to a queue."""
    await served.http.post(SPACES, json=body(space()))
    made = (await served.http.post(ADDRESSES, json=body(queue()))).json()
    served.engine.open = [
        Connection(
            1, "default.default", "alice", "c", "10.0.0.5:9", "amqps", 1, product="qpid-jms 2.5"
        ),
        Connection(2, "default.default", None, None, None, "ws", 0),
        Connection(3, "shop.other", "bob", None, None, "amqp", 0),
        Connection(4, None, None, None, None, "amqp", 0),
    ]
    uid = made["metadata"]["uid"]
    served.engine.attached = [
        LinkStatistics(1, "in", "receiver", (uid,), 10, 5, 2, LinkOutcomes(accepted=1, released=2))
    ]
    return served


async def test_a_tenant_sees_the_connections_of_its_namespace(connected: Served) -> None:
    tenant = await bearer(connected, "ci.x", tenant_view="default")
    found: dict[str, Any] = (await tenant.get(MINE)).json()
    assert [one["id"] for one in found["items"]] == ["1", "2"]
    first = found["items"][0]
    assert first["tls"] is True
    assert (first["user"], first["product"], first["space"]) == (
        *("alice", "qpid-jms 2.5"),
        "default",
    )
    assert "user" not in found["items"][1]
    assert (await tenant.get(f"{BASE}/other/connections")).status_code == 403
    assert (await tenant.get(f"{MINE}/3")).status_code == 404, "of another namespace"


async def test_connections_are_paged_and_selected(connected: Served) -> None:
    first = (await connected.http.get(MINE, params={"limit": 1})).json()
    assert first["metadata"] == {"remainingItemCount": 1, "continue": "1"}
    second = (await connected.http.get(MINE, params={"limit": 1, "continue": "1"})).json()
    assert [one["id"] for one in second["items"]] == ["2"]
    assert "continue" not in second["metadata"]
    at = (await connected.http.get(MINE, params={"address": "orders"})).json()
    assert [one["id"] for one in at["items"]] == ["1"]
    none = (await connected.http.get(MINE, params={"space": "another"})).json()
    assert none["items"] == []
    assert (await connected.http.get(MINE, params={"address": "gone"})).status_code == 404
    assert (await connected.http.get(MINE, params={"continue": "x"})).status_code == 400


async def test_rates_cover_the_time_since_the_previous_listing(connected: Served) -> None:
    await connected.http.get(MINE)
    connected.clock.advance(10)
    first, *rest = connected.engine.open
    connected.engine.open = [first._replace(messages_in=50, messages_out=100), *rest]
    found = (await connected.http.get(MINE)).json()["items"][0]
    assert (found["messagesInPerSecond"], found["messagesOutPerSecond"]) == (5.0, 10.0)


async def test_links_are_shown_by_connection_and_by_address(connected: Served) -> None:
    one = (await connected.http.get(f"{MINE}/1")).json()
    (link,) = one["links"]
    assert (link["role"], link["address"], link["credit"]) == ("receiver", "orders", 10)
    at = (await connected.http.get(f"{ADDRESSES}/default.orders/links")).json()
    (same,) = at["items"]
    assert same == link
    assert (same["user"], same["deliveries"], same["unsettled"]) == ("alice", 5, 2)
    assert same["outcomes"] == {"accepted": 1, "rejected": 0, "released": 2, "modified": 0}


async def test_only_an_editor_closes_a_connection(connected: Served) -> None:
    viewer = await bearer(connected, "view.x", tenant_view="default")
    assert (await viewer.delete(f"{MINE}/1")).status_code == 403
    operator = await bearer(connected, "op.x", service_admin="*")
    assert (await operator.delete(f"{MINE}/1")).status_code == 403
    editor = await bearer(connected, "edit.x", tenant_edit="default")
    assert (await editor.delete(f"{MINE}/3")).status_code == 404
    assert (await editor.delete(f"{MINE}/1")).status_code == 200
    assert [one.id for one in connected.engine.open] == [2, 3, 4]
    assert (await editor.delete(f"{MINE}/1")).status_code == 404


async def test_a_trace_is_read_in_the_page_and_bounded(connected: Served) -> None:
    connected.engine.traced_frames = ["open", "begin", "attach"]
    path = f"{MINE}/1/trace"
    viewer = await bearer(connected, "view.x", tenant_view="default")
    assert (await viewer.get(path)).status_code == 403
    editor = await bearer(connected, "edit.x", tenant_edit="default")
    answer = await editor.get(path, params={"frames": 2, "follow": "true"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.split("\n\n")
    assert [one.partition("data: ")[2] for one in events if one.startswith("event: frame")] == [
        '{"atMs": null, "direction": "in", "frames": "open"}',
        '{"atMs": null, "direction": "in", "frames": "begin"}',
    ]
    assert 'event: end\ndata: {"reason": "frames"}' in answer.text
    ended = await editor.get(path, params={"seconds": 1})
    assert ended.text.count("event: frame") == 3
    assert '{"reason": "seconds"}' in ended.text
    assert (await editor.get(f"{MINE}/3/trace")).status_code == 404


async def test_links_have_a_rate_from_the_second_reading_on(connected: Served) -> None:
    (attached,) = connected.engine.attached
    # The last one has attached again, and counts from zero.
    for deliveries, rate in ((10, None), (50, 20.0), (5, None)):
        connected.engine.attached = [attached._replace(deliveries=deliveries)]
        answer = await connected.http.get(f"{ADDRESSES}/default.orders/links")
        assert answer.json()["items"][0].get("deliveriesPerSecond") == rate
        connected.clock.advance(2)
