"""Retained messages and MQTT sessions below an address space."""

import pytest

from asgi_platform import SPACES, Served, bearer, body
from doubles import space
from enmasse.base.errors import Code, Fault, Invalid
from enmasse.engines import (
    MqttSession,
    Operation,
    SessionKind,
    SessionName,
    SliceDone,
    StoredMessage,
)
from enmasse.messaging import Data, Message, Properties

SPACE = "/apis/enmasse.io/v1beta1/namespaces/default/addressspaces/default"
RETAINED, SESSIONS = f"{SPACE}/retained", f"{SPACE}/mqttsessions"


@pytest.fixture
async def with_space(served: Served) -> Served:
    """A platform with an address space."""
    await served.http.post(SPACES, json=body(space()))
    return served


def kept(topic: str, payload: bytes) -> StoredMessage:
    """A stored retained message."""
    message = Message(body=Data((payload,)), properties=Properties(to=topic))
    return StoredMessage(1, "waiting", 100, 1_700_000_000_000, message=message)


async def test_retained_messages_are_peeked_by_filter(with_space: Served) -> None:
    found = [kept("a/1", b"one"), kept("a/2", b"")]
    with_space.engine.answers = [SliceDone(2, 200, "5-9", found)]
    page = (await with_space.http.get(RETAINED, params={"filter": "a/+", "limit": 2})).json()
    assert [one["topic"] for one in page["items"]] == ["a/1"], "an empty one removes another"
    assert page["items"][0]["message"]["body"] == "one"
    assert page["metadata"] == {"continue": "5-9"}
    uid, operation, part = with_space.engine.managed[0]
    assert uid.endswith("/retained")
    assert operation is Operation.PEEK
    assert (part.topic_filter, part.limit) == ("a/+", 2)


async def test_retained_messages_are_deleted_by_filter_only(with_space: Served) -> None:
    refused = await with_space.http.delete(RETAINED)
    assert refused.status_code == 422
    assert "filter" in refused.json()["message"]
    with_space.engine.answers = [SliceDone(3, 300)]
    done = (await with_space.http.delete(RETAINED, params={"filter": "#"})).json()
    assert (done["messages"], done["metadata"]) == (3, {})
    assert with_space.engine.managed[0][1] is Operation.PURGE


async def test_wrong_filter_is_named(with_space: Served) -> None:
    fault = Fault("filter", "a wildcard is not a whole level of the topic filter")
    with_space.engine.answers = [Invalid(Code.FIELD_INVALID, str(fault), faults=[fault])]
    refused = await with_space.http.get(RETAINED, params={"filter": "a#"})
    assert refused.status_code == 422
    assert "wildcard" in refused.json()["message"]


def session(user: str | None, client_id: str) -> MqttSession:
    """A session of a client that is not connected."""
    return MqttSession(SessionName(user, client_id))


async def test_sessions_are_paged(with_space: Served) -> None:
    with_space.engine.sessions = [session("amy", f"c{number}") for number in range(3)]
    with_space.engine.sessions.append(session(None, "nameless"))
    seen, query = [], {"limit": "2"}
    while True:
        page = (await with_space.http.get(SESSIONS, params=query)).json()
        seen += [(one.get("user"), one["clientId"]) for one in page["items"]]
        if "continue" not in page["metadata"]:
            break
        query["continue"] = page["metadata"]["continue"]
    assert seen == [(None, "nameless"), ("amy", "c0"), ("amy", "c1"), ("amy", "c2")]
    for token in ("x", "W10=", "WzEsIDIsIDMsIDRd", "WzEsIDIsICJjbGllbnQiLCBudWxsXQ=="):
        wrong = await with_space.http.get(SESSIONS, params={"continue": token})
        assert wrong.status_code == 422, token


async def test_session_is_ended_by_client_id_and_user(with_space: Served) -> None:
    with_space.engine.sessions = [session("amy", "a"), session(None, "a")]
    assert (await with_space.http.delete(SESSIONS)).status_code == 422
    missing = await with_space.http.delete(SESSIONS, params={"clientId": "a", "user": "bob"})
    assert missing.status_code == 404
    done = await with_space.http.delete(SESSIONS, params={"clientId": "a", "user": "amy"})
    assert done.json()["status"] == "Success"
    assert with_space.engine.sessions == [session(None, "a")]


async def test_session_of_an_amqp_client_is_ended_by_its_kind(with_space: Served) -> None:
    subscription = MqttSession(SessionName("amy", "a", SessionKind.SUBSCRIPTION))
    will = MqttSession(SessionName("amy", "a", SessionKind.WILL, "lwt"))
    with_space.engine.sessions = [session("amy", "a"), subscription, will]
    listed = (await with_space.http.get(SESSIONS)).json()["items"]
    assert [(one["kind"], one.get("link")) for one in listed] == [
        ("client", None),
        ("subscription", None),
        ("will", "lwt"),
    ]
    named = {"clientId": "a", "user": "amy"}
    for wrong in ({"kind": "sessions"}, {"kind": "will"}, {"link": "lwt"}):
        assert (await with_space.http.delete(SESSIONS, params=named | wrong)).status_code == 422
    await with_space.http.delete(SESSIONS, params=named | {"kind": "subscription"})
    assert with_space.engine.sessions == [session("amy", "a"), will]
    await with_space.http.delete(SESSIONS, params=named | {"kind": "will", "link": "lwt"})
    assert with_space.engine.sessions == [session("amy", "a")]


async def test_viewers_see_sessions_and_no_bodies(with_space: Served) -> None:
    viewer = await bearer(with_space, "ci.x", tenant_view="default")
    assert (await viewer.get(SESSIONS)).status_code == 200
    assert (await viewer.get(RETAINED)).status_code == 403
    assert (await viewer.delete(SESSIONS, params={"clientId": "a"})).status_code == 403
    editor = await bearer(with_space, "ci.y", tenant_edit="default")
    with_space.engine.answers = [SliceDone(0, 0)]
    assert (await editor.get(RETAINED)).status_code == 200


async def test_unknown_space_is_not_found(served: Served) -> None:
    assert (await served.http.get(SESSIONS)).status_code == 404
