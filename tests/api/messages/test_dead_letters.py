"""Dead letters by cause and origin."""

from typing import Any

import pytest

from asgi_platform import ADDRESSES, SPACES, Served, bearer, body
from doubles import address, queue, space
from enmasse.api.messages import dead_letters
from enmasse.api.messages.dead_letters import GROUPS_MAX, Groups, collect, filter_of
from enmasse.engines import Operation, SliceDone, StoredMessage
from enmasse.messaging import Message

CAUSE, ORIGIN = "x-opt-dead-letter-cause", "x-opt-dead-letter-origin"
DEAD = f"{ADDRESSES}/default.orders/deadletters"


def dead(number: int, cause: str = "rejected", origin: str = "orders", **more: Any) -> Any:
    annotations = {CAUSE: cause, ORIGIN: origin} | more
    message = Message(annotations=annotations)
    return StoredMessage(number, "waiting", 10, 1000 * number, message=message)


@pytest.fixture
async def letters(served: Served) -> Served:
    await served.http.post(SPACES, json=body(space()))
    await served.http.post(ADDRESSES, json=body(queue()))
    return served


async def test_groups_are_counted_over_slices(letters: Served) -> None:
    letters.engine.answers = [
        SliceDone(2, 20, rest="2-9", found=[dead(1), dead(2, "expired")]),
        SliceDone(2, 20, found=[dead(3, **{"x-opt-dead-letter-description": "why"}), dead(4)]),
    ]
    found = (await letters.http.post(DEAD, json={})).json()
    assert (found["messages"], found["bytes"], found["complete"]) == (4, 40, True)
    first, second = found["groups"]
    assert (first["cause"], first["messages"], first["ids"]) == ("rejected", 3, [1, 3, 4])
    assert (first["oldest"], first["newest"]) == ("1970-01-01T00:00:01Z", "1970-01-01T00:00:04Z")
    assert first["description"] == "why"
    assert (second["cause"], second["messages"]) == ("expired", 1)
    assert [part.after for _, _, part in letters.engine.managed] == [None, "2-9"]


async def test_an_answer_is_bounded_and_continues(letters: Served) -> None:
    letters.engine.answers = [SliceDone(5, 50, rest="5-9", found=[dead(n) for n in range(5)])]
    found = (await letters.http.post(DEAD, json={"limit": 5})).json()
    assert (found["complete"], found["continue"]) == (False, "5-9")
    wrong = await letters.http.post(DEAD, json={"limit": 10_001})
    assert wrong.status_code == 422


async def test_an_answer_ends_after_its_time_without_a_message(
    letters: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "SUMMARY_S", 0.0)
    letters.engine.answers = [SliceDone(0, 0, rest="7-9"), SliceDone(1, 10, found=[dead(8)])]
    found = (await letters.http.post(DEAD, json={})).json()
    assert (found["messages"], found["complete"], found["continue"]) == (0, False, "7-9")
    found = (await letters.http.post(DEAD, json={"continue": "7-9"})).json()
    assert (found["messages"], found["complete"]) == (1, True)


async def test_who_may_read_messages_may_group_them(letters: Served) -> None:
    letters.engine.answers = [SliceDone(0, 0)]
    viewer = await bearer(letters, "view.x", tenant_view="*", service_admin="*")
    for operation in ("deadletters", "peek", "send"):
        refused = await viewer.post(f"{ADDRESSES}/default.orders/{operation}", json={})
        assert refused.status_code == 403, "operators and viewers see no messages"
    editor = await bearer(letters, "edit.x", tenant_edit="default")
    assert (await editor.post(DEAD, json={})).status_code == 200


async def test_an_edit_replaces_one_message(letters: Served) -> None:
    await letters.http.post(ADDRESSES, json=body(address("default.dead", "deadletter")))
    path = f"{ADDRESSES}/default.dead/redrive"
    letters.engine.answers = [SliceDone(1, 10), SliceDone(0, 0)]
    edit = {"message": {"body": "new"}}
    assert (await letters.http.post(path, json={"id": 7, "edit": edit})).status_code == 200
    _, operation, part = letters.engine.managed[-1]
    assert (operation, part.message) == (Operation.REDRIVE, 7)
    assert part.edited is not None
    assert part.edited.content == "new"
    gone = await letters.http.post(path, json={"id": 7, "edit": edit})
    assert (gone.status_code, gone.json()["details"]["code"]) == (409, "E4009")


@pytest.mark.parametrize(
    ("operation", "request_body", "field"),
    [
        ("redrive", {"edit": {"message": {}}}, "id"),
        ("peek", {"id": 1, "edit": {"message": {}}}, "edit"),
        ("peek", {"id": 1, "continue": "1-2"}, "continue"),
        ("peek", {"selector": "a = 1", "filter": "m.a = 1"}, "filter"),
    ],
)
async def test_fields_that_do_not_fit_are_named(
    letters: Served, operation: str, request_body: dict[str, Any], field: str
) -> None:
    kind = "dead" if operation == "redrive" else "orders"
    await letters.http.post(ADDRESSES, json=body(address("default.dead", "deadletter")))
    answer = await letters.http.post(f"{ADDRESSES}/default.{kind}/{operation}", json=request_body)
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == field


def test_groups_are_bounded() -> None:
    groups: Groups = {}
    collect(groups, [dead(n, origin=str(n)) for n in range(GROUPS_MAX + 5)])
    assert len(groups) == GROUPS_MAX


def test_a_filter_selects_a_group_with_any_name() -> None:
    assert filter_of("expired", "it's") == (
        "m.[x-opt-dead-letter-cause] = 'expired' AND m.[x-opt-dead-letter-origin] = 'it''s'"
    )
    assert "IS NULL" in filter_of("unknown", "orders")
