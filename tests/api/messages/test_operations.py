"""Operations on stored messages: requests to the engine, and requests refused before it."""

from typing import Any

import pytest

from asgi_platform import ADDRESSES, Served
from doubles import address, deadletter, queue, space, subscription, topic
from enmasse.api.messages.answers import DeadLettersAnswer, OperationAnswer
from enmasse.base.errors import Code, Invalid
from enmasse.engines import Operation, Slice, SliceDone, StoredMessage
from enmasse.messaging import Data, Message, Properties, Value
from enmasse.resources.model import Model

ORDERS = f"{ADDRESSES}/default.orders"
DEAD = f"{ADDRESSES}/default.dead"


@pytest.fixture
async def stored(served: Served) -> Served:
    resources = [
        space(),
        *(one.with_metadata(uid=f"uid-{one.spec.address}") for one in (
            queue(), topic(), subscription(), deadletter(), address("default.direct"),
        )),
        space("north"),
        queue("north.far"),
    ]  # fmt: skip
    await served.store.put(resources)
    return served


def assert_described(answer: dict[str, Any], model: type[Model]) -> None:
    """An answer has the members that OpenAPI states, and no others."""
    read = model.model_validate(answer, by_alias=True, by_name=False)
    assert read.model_dump(mode="json", by_alias=True, exclude_none=True).keys() == answer.keys()


def uid(served: Served, name: str) -> str:
    (found,) = [one for one in served.store.list("Address") if one.metadata.name == name]
    return found.metadata.uid or ""


async def test_message_operation_runs_as_one_slice_of_the_engine(stored: Served) -> None:
    stored.engine.answers = [SliceDone(1000, 5000, rest="17"), SliceDone(20, 90)]
    asked = {"selector": "a = 1", "limit": 5000, "dryRun": True}
    first = await stored.http.post(f"{ORDERS}/purge", json=asked)
    assert first.status_code == 200
    assert_described(first.json(), OperationAnswer)
    assert first.json() == {
        "kind": "MessageOperation",
        "apiVersion": "enmasse.io/v1beta1",
        "operation": "purge",
        "address": "orders",
        "dryRun": True,
        "messages": 1000,
        "bytes": 5000,
        "continue": "17",
    }
    second = await stored.http.post(f"{ORDERS}/purge", json={"continue": "17", "limit": 30})
    assert "continue" not in second.json()
    orders = uid(stored, "default.orders")
    assert stored.engine.managed == [
        (orders, Operation.PURGE, Slice(limit=1000, selector="a = 1", dry_run=True)),
        (orders, Operation.PURGE, Slice(limit=30, after="17")),
    ]


async def test_peek_returns_stored_messages_with_their_state(stored: Served) -> None:
    message = Message(Value("hello"), Properties(message_id="m1"))
    stored.engine.answers = [
        SliceDone(
            2,
            70,
            found=[
                StoredMessage(1, "waiting", 30, 1_767_225_600_000, message=message),
                StoredMessage(2, "delayed", 40, 1_767_225_600_000, 2**63, 1_767_225_601_999, 3),
            ],
        )
    ]
    answer = (await stored.http.post(f"{ORDERS}/peek", json={})).json()
    assert_described(answer, OperationAnswer)
    shown = answer["items"]
    assert shown == [
        {
            "id": 1,
            "state": "waiting",
            "bytes": 30,
            "enqueued": "2026-01-01T00:00:00Z",
            "attempts": 0,
            "message": {"body": "hello", "properties": {"message_id": "m1"}},
        },
        {
            "id": 2,
            "state": "delayed",
            "bytes": 40,
            "enqueued": "2026-01-01T00:00:00Z",
            "attempts": 3,
            "expires": "9999-12-31T23:59:59Z",
            "due": "2026-01-01T00:00:01Z",
        },
    ]


async def test_typed_answers_have_the_members_that_openapi_states(stored: Served) -> None:
    bodies = (None, Value(None), Data((b"x",)))
    stored.engine.answers = [
        SliceDone(
            3, 9, found=[StoredMessage(1, "waiting", 3, 0, message=Message(b)) for b in bodies]
        )
    ]
    answer = (await stored.http.post(f"{ORDERS}/peek", json={"form": "typed"})).json()
    assert_described(answer, OperationAnswer)
    assert [one["kind"] for one in answer["items"]] == ["none", "value", "data"]
    stored.engine.answers = [SliceDone(0, 0)]
    answer = (await stored.http.post(f"{DEAD}/deadletters", json={})).json()
    assert_described(answer, DeadLettersAnswer)


@pytest.mark.parametrize("operation", ["move", "copy"])
async def test_move_and_copy_accept_an_address_of_the_same_space(
    stored: Served, operation: str
) -> None:
    stored.engine.answers = [SliceDone(1, 1)] * 2
    for to in ("orders", "news"):
        answer = await stored.http.post(f"{DEAD}/{operation}", json={"to": to})
        assert answer.status_code == 200
    targets = [part.to for _, _, part in stored.engine.managed]
    assert targets == [uid(stored, "default.orders"), uid(stored, "default.news")]


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no target": ("orders/move", {}, "to: is required"),
    "a target nobody declared": ("orders/move", {"to": "x"}, "to: address 'x' not found"),
    "a target of another space": ("orders/copy", {"to": "far"}, "to: address 'far' not found"),
    "a target that stores nothing": (
        "orders/copy",
        {"to": "direct"},
        "to: 'direct' is of type anycast; the destination must be of type queue and topic",
    ),
    "a target that is the source": ("orders/move", {"to": "orders"}, "is the source address"),
    "a target for nothing": ("orders/purge", {"to": "news"}, "to: is not a field of purge"),
    "no number": ("orders/purge", {"limit": "5"}, "limit: must be a whole number"),
    "nothing": ("orders/purge", {"limit": 0}, "limit: must be at least 1"),
    "a word nobody knows": ("orders/purge", {"dry": True}, "dry: unknown field"),
    "a yes that is a text": ("orders/purge", {"dryRun": "no"}, "dryRun: must be true or false"),
    "a direct address": ("direct/purge", {}, "purge does not support addresses of type anycast"),
    "a topic": ("news/peek", {}, "peek does not support addresses of type topic, only queue,"),
    "what is no dead letter": ("orders/redrive", {}, "only deadletter"),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_invalid_message_operation_is_refused_before_the_engine(
    stored: Served, why: str
) -> None:
    path, body, says = REFUSED[why]
    answer = await stored.http.post(f"{ADDRESSES}/default.{path}", json=body)
    assert answer.status_code == 422
    assert says in answer.json()["message"]
    assert stored.engine.managed == []


async def test_operation_on_an_unknown_address_or_path_returns_404(stored: Served) -> None:
    assert (await stored.http.post(f"{ADDRESSES}/default.x/purge", json={})).status_code == 404
    assert (await stored.http.post(f"{ORDERS}/drink", json={})).status_code == 404
    assert (await stored.http.get(f"{ORDERS}/purge")).status_code == 405
    assert (await stored.http.post(f"{ORDERS}/purge", content=b"[]")).status_code == 400


async def test_operation_unsupported_by_the_engine_returns_501(stored: Served) -> None:
    answer = await stored.http.post(f"{ORDERS}/purge", json={})
    assert answer.status_code == 501
    status = answer.json()
    assert (status["kind"], status["reason"]) == ("Status", "NotImplemented")
    assert status["message"] == "this node cannot purge"
    stored.engine.answers = [Invalid(Code.REQUEST_INVALID, "selector: `a =` ends too early")]
    refused = await stored.http.post(f"{ORDERS}/purge", json={"selector": "a ="})
    assert refused.status_code == 400
