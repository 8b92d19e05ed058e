"""Addresses as resources: T-AS-5 to T-AS-7 of docs/acceptance.md."""

from typing import Any

import pytest

from asgi_platform import ADDRESSES, SPACES, USERS, Served
from doubles import queue, space, user

API = "/apis/enmasse.io/v1beta1"


def body(resource: Any, namespace: str = "default") -> dict[str, Any]:
    document: dict[str, Any] = resource.document()
    document.pop("status", None)
    document["metadata"]["namespace"] = namespace
    return document


def there(path: str, namespace: str) -> str:
    return path.replace("/default/", f"/{namespace}/")


async def names(served: Served, path: str) -> list[tuple[str, str]]:
    """Namespace and name of each listed resource."""
    items = (await served.http.get(path)).json()["items"]
    return [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in items]


@pytest.mark.parametrize("missing", ["address", "type"])
async def test_T_AS_5_missing_required_field_is_named(served: Served, missing: str) -> None:
    await served.http.post(SPACES, json=body(space()))
    wanted = body(queue())
    del wanted["spec"][missing]
    refused = await served.http.post(ADDRESSES, json=wanted)
    assert refused.status_code == 422
    status = refused.json()
    assert status["reason"] == "Invalid"
    assert [cause["field"] for cause in status["details"]["causes"]] == [f"spec.{missing}"]


async def test_T_AS_5_omitted_plan_gets_a_default(served: Served) -> None:
    await served.http.post(SPACES, json=body(space()))
    wanted = body(queue())
    wanted["spec"].pop("plan", None)
    assert (await served.http.post(ADDRESSES, json=wanted)).status_code == 201


async def test_T_AS_6_created_addresses_preserve_their_names_and_are_listed(served: Served) -> None:
    await served.http.post(SPACES, json=body(space()))
    for count, name in enumerate(("Orders", "a/b", "with space?".replace(" ", "-"), "ünicode"), 1):
        own = f"default.a{count}"
        made = await served.http.post(ADDRESSES, json=body(queue(own, address=name)))
        assert made.status_code == 201, made.text
        got = (await served.http.get(f"{ADDRESSES}/{own}")).json()
        assert (got["metadata"]["name"], got["spec"]["address"]) == (own, name)
        assert len(await names(served, ADDRESSES)) == count


async def test_T_AS_7_list_covers_all_namespaces(served: Served) -> None:
    spaces = ("north", "south")
    for namespace in spaces:
        for path, resource in ((SPACES, space()), (ADDRESSES, queue()), (USERS, user())):
            made = await served.http.post(there(path, namespace), json=body(resource, namespace))
            assert made.status_code == 201, made.text
    for plural, name in (
        ("addressspaces", "default"),
        ("addresses", "default.orders"),
        ("messagingusers", "default.alice"),
    ):
        assert await names(served, f"{API}/{plural}") == [(one, name) for one in spaces]
