"""Whether a messaging user may do something."""

from typing import Any

from asgi_platform import SPACES, USERS, Served, bearer, body
from doubles import space
from enmasse.resources import parse

REVIEW = f"{SPACES}/default/accessreviews"


async def answer(served: Served, **asked: str) -> dict[str, Any]:
    question = {"user": "alice", "operation": "send", "address": "orders"} | asked
    found = await served.http.post(REVIEW, json=question)
    assert found.status_code == 200, found.text
    document: dict[str, Any] = found.json()
    return document


def alice() -> Any:
    return parse(
        {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "MessagingUser",
            "metadata": {"name": "default.alice"},
            "spec": {
                "username": "alice",
                "authentication": {"type": "password", "password": "c2VjcmV0"},
                "authorization": [{"addresses": ["ord*"], "operations": ["send"]}],
            },
        }
    )


def user_document() -> dict[str, Any]:
    document = body(alice())
    document["spec"]["authentication"]["password"] = "c2VjcmV0"
    return document


async def test_declared_rights_decide(served: Served) -> None:
    await served.http.post(SPACES, json=body(space("default", "standard")))
    assert (await served.http.post(USERS, json=user_document())).status_code == 201
    allowed = await answer(served)
    assert (allowed["allowed"], allowed["pattern"], allowed["declared"]) == (True, "ord*", True)
    refused = await answer(served, operation="recv")
    assert not refused["allowed"]
    assert "has recv on 'orders'" in refused["reason"]
    unknown = await answer(served, user="bob")
    assert (unknown["allowed"], unknown["declared"]) == (False, False)


async def test_an_open_space_allows_everything(served: Served) -> None:
    await served.http.post(SPACES, json=body(space()))
    found = await answer(served, user="anyone", operation="recv", address="x")
    assert found["allowed"]
    assert "open" in found["reason"]


async def test_malformed_questions_name_the_field(served: Served) -> None:
    await served.http.post(SPACES, json=body(space()))
    found = await served.http.post(REVIEW, json={"user": "a", "operation": "eat", "address": "x"})
    assert found.status_code == 422
    assert found.json()["details"]["causes"][0]["field"] == "operation"
    missing = await served.http.post(REVIEW.replace("default/acc", "gone/acc"), json={})
    assert missing.status_code == 404


async def test_a_viewer_may_ask_about_its_namespace(served: Served) -> None:
    await served.http.post(SPACES, json=body(space()))
    viewer = await bearer(served, "ci.x", tenant_view="default")
    question = {"user": "a", "operation": "send", "address": "x"}
    assert (await viewer.post(REVIEW, json=question)).status_code == 200
    elsewhere = REVIEW.replace("namespaces/default", "namespaces/other")
    assert (await viewer.post(elsewhere, json=question)).status_code == 403
