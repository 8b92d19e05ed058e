"""The verbs of the resource paths."""

from typing import Any

import pytest
import yaml

from asgi_platform import ADDRESSES, SPACES, USERS, Served
from doubles import address, space, user

MERGE = {"Content-Type": "application/merge-patch+json"}


def body(resource: Any) -> dict[str, Any]:
    document: dict[str, Any] = resource.document()
    del document["status"]
    return document


@pytest.fixture
async def with_space(served: Served) -> Served:
    assert (await served.http.post(SPACES, json=body(space()))).status_code == 201
    return served


async def test_an_address_is_created_and_becomes_ready(with_space: Served) -> None:
    created = await with_space.http.post(ADDRESSES, json=body(address()))
    assert created.status_code == 201
    assert created.json()["metadata"]["uid"]
    await with_space.settle()
    got = (await with_space.http.get(f"{ADDRESSES}/default.orders")).json()
    assert got["status"]["isReady"] is True
    assert got["status"]["phase"] == "Active"
    assert got["status"]["conditions"][0]["type"] == "Ready"
    assert got["spec"] == {"type": "anycast", "address": "orders"}


async def test_body_may_omit_kind_and_namespace(with_space: Served) -> None:
    brief = {
        "metadata": {"name": "default.orders"},
        "spec": {"type": "anycast", "address": "orders"},
    }
    created = (await with_space.http.post(ADDRESSES, json=brief)).json()
    assert created["kind"] == "Address"
    assert created["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "AddressSpace"}, "kind"),
        ({"apiVersion": "v1"}, "apiVersion"),
        ({"metadata": {"name": "default.orders", "namespace": "north"}}, "metadata.namespace"),
        ({"metadata": {"name": "other.orders"}}, "metadata.name"),
        ({"metadata": "orders"}, "metadata"),
        ({"spec": {"type": "unicast", "address": "orders"}}, "spec.type"),
        ({"spec": {"type": "queue", "address": "orders", "topic": "news"}}, "spec.topic"),
        ({"spec": {"type": "queue", "address": "orders", "expiry": "old"}}, "spec.expiry"),
    ],
)
async def test_a_bad_resource_is_refused_with_its_field(
    with_space: Served, change: dict[str, Any], field: str
) -> None:
    answer = await with_space.http.post(ADDRESSES, json=body(address()) | change)
    assert answer.status_code == 422
    status = answer.json()
    assert status["kind"] == "Status"
    assert field in [cause["field"] for cause in status["details"]["causes"]]
    assert with_space.store.list("Address") == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000])
async def test_body_that_is_not_a_json_object_is_refused(served: Served, content: bytes) -> None:
    answer = await served.http.post(ADDRESSES, content=content)
    assert answer.status_code == 400
    assert answer.json()["reason"] == "BadRequest"


async def test_a_body_may_be_yaml(with_space: Served) -> None:
    http, headers = with_space.http, {"Content-Type": "application/yaml; charset=utf-8"}
    text = yaml.safe_dump(body(address()))
    made = await http.post(ADDRESSES, content=text, headers=headers)
    assert (made.status_code, made.json()["spec"]["address"]) == (201, "orders")
    version = made.json()["metadata"]["resourceVersion"]
    said = f"metadata:\n  resourceVersion: '{version}'\n  labels: {{team: north}}"
    labelled = text.replace("metadata:", said)
    put = await http.put(f"{ADDRESSES}/default.orders", content=labelled, headers=headers)
    assert put.json()["metadata"]["labels"] == {"team": "north"}
    for bad in (f"{text}---\n{text}", "a: [", "- a\n", "!!python/name:os.system", b"\xff"):
        refused = await http.post(ADDRESSES, content=bad, headers=headers)
        assert (refused.status_code, refused.json()["reason"]) == (400, "BadRequest")


async def test_create_of_an_existing_resource_conflicts(with_space: Served) -> None:
    await with_space.http.post(ADDRESSES, json=body(address()))
    again = await with_space.http.post(ADDRESSES, json=body(address()))
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    twin = body(address("default.twin", address="orders"))
    taken = await with_space.http.post(ADDRESSES, json=twin)
    assert (taken.status_code, taken.json()["reason"]) == (409, "Conflict")
    assert taken.json()["details"]["causes"][0]["field"] == "spec.address"


async def test_list_covers_one_namespace_or_all(served: Served) -> None:
    for namespace in ("default", "north"):
        base = f"/apis/enmasse.io/v1beta1/namespaces/{namespace}"
        await served.http.post(f"{base}/addressspaces", json=body(space(namespace=namespace)))
        await served.http.post(f"{base}/addresses", json=body(address(namespace=namespace)))
    one = (await served.http.get(ADDRESSES)).json()
    assert one["kind"] == "AddressList"
    assert one["apiVersion"] == "enmasse.io/v1beta1"
    assert int(one["metadata"]["resourceVersion"]) >= 4
    assert [item["metadata"]["namespace"] for item in one["items"]] == ["default"]
    everything = (await served.http.get("/apis/enmasse.io/v1beta1/addresses")).json()
    assert len(everything["items"]) == 2


async def test_put_replaces_an_existing_resource(with_space: Served) -> None:
    path = f"{ADDRESSES}/default.orders"
    assert (await with_space.http.put(path, json=body(address()))).status_code == 404
    made = (await with_space.http.post(ADDRESSES, json=body(address()))).json()
    made["metadata"]["labels"] = {"team": "north"}
    changed = await with_space.http.put(path, json=made)
    assert changed.status_code == 200
    assert changed.json()["metadata"]["labels"] == {"team": "north"}
    made["metadata"]["labels"] = {"team": "south"}
    late = await with_space.http.put(path, json=made)
    assert late.status_code == 409
    made["metadata"]["name"] = "default.other"
    assert (await with_space.http.put(path, json=made)).status_code == 422


async def test_merge_patch_changes_only_the_fields_it_names(with_space: Served) -> None:
    path = f"{ADDRESSES}/default.orders"
    await with_space.http.post(ADDRESSES, json=body(address()))
    patch = {"metadata": {"labels": {"team": "north"}}, "spec": {"plan": "small"}}
    patched = await with_space.http.patch(path, json=patch, headers=MERGE)
    assert patched.status_code == 200
    assert patched.json()["spec"]["plan"] == "small"
    removed = await with_space.http.patch(path, json={"spec": {"plan": None}}, headers=MERGE)
    assert "plan" not in removed.json()["spec"]
    assert removed.json()["metadata"]["labels"] == {"team": "north"}
    fixed = await with_space.http.patch(path, json={"spec": {"type": "multicast"}}, headers=MERGE)
    assert fixed.status_code == 422
    assert fixed.json()["details"]["causes"][0]["field"] == "spec.type"
    stale = {"metadata": {"resourceVersion": "1"}}
    assert (await with_space.http.patch(path, json=stale, headers=MERGE)).status_code == 409
    other = await with_space.http.patch(path, json=[])
    assert other.status_code == 415


async def test_delete_returns_the_uid_of_the_deleted_resource(with_space: Served) -> None:
    path = f"{ADDRESSES}/default.orders"
    made = (await with_space.http.post(ADDRESSES, json=body(address()))).json()
    other = {"preconditions": {"uid": "another"}}
    refused = await with_space.http.request("DELETE", path, json=other)
    assert refused.status_code == 409
    gone = await with_space.http.delete(path)
    assert gone.status_code == 200
    assert gone.json()["status"] == "Success"
    assert gone.json()["details"]["uid"] == made["metadata"]["uid"]
    assert (await with_space.http.get(path)).status_code == 404
    assert (await with_space.http.delete(path)).json()["reason"] == "NotFound"


async def test_response_never_contains_a_password_or_its_verifier(with_space: Served) -> None:
    path = f"{USERS}/default.alice"
    posted = body(user())
    posted["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": str(posted["spec"])
    }
    created = await with_space.http.post(USERS, json=posted)
    assert created.status_code == 201
    listed = await with_space.http.get(USERS)
    for answer in (created, await with_space.http.get(path), listed):
        for secret in ("cGVuY2ls", "password:", "verifiers", "storedKey", "last-applied"):
            assert secret not in answer.text
    stored = with_space.store.list("MessagingUser")
    patch = {"spec": {"authorization": []}}
    patched = await with_space.http.patch(path, json=patch, headers=MERGE)
    assert patched.status_code == 200
    kept = with_space.store.list("MessagingUser")
    assert kept[0].spec.authentication == stored[0].spec.authentication  # type: ignore[attr-defined]


async def test_unknown_path_returns_404_and_unknown_verb_405(served: Served) -> None:
    kinds = await served.http.get("/apis/enmasse.io/v1beta1/namespaces/default/queues")
    assert kinds.status_code == 404
    assert "there are addressspaces, addresses, messagingusers" in kinds.json()["message"]
    nothing = await served.http.get("/nothing")
    assert (nothing.status_code, nothing.json()["kind"]) == (404, "Status")
    verb = await served.http.put(ADDRESSES)
    assert (verb.status_code, verb.json()["reason"]) == (405, "MethodNotAllowed")


async def test_unhandled_exception_returns_a_status_with_500(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(served.store, "list", broken)
    async with served.client() as http:
        answer = await http.get(ADDRESSES, headers=dict(served.http.headers))
    assert answer.status_code == 500
    assert answer.json()["reason"] == "InternalError"
