"""Writes as in Kubernetes: dry runs, field validation, finalizers, preconditions."""

from typing import Any

import pytest

from asgi_platform import ADDRESSES, SPACES, Served
from doubles import address, space, user
from enmasse.api.http import bodies
from enmasse.control import Admission
from enmasse.resources import Address

PATH = f"{ADDRESSES}/default.orders"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json-patch+json"}
CORE = "/api/v1/namespaces/default"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def body(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = address().document() | changes
    del document["status"]
    return document


@pytest.fixture
async def with_space(served: Served) -> Served:
    await Admission(served.store, exposed=False).apply([space()])
    return served


@pytest.fixture
async def with_address(with_space: Served) -> Served:
    await Admission(with_space.store, exposed=False).apply([address()])
    return with_space


async def test_dry_run_returns_the_result_and_changes_nothing(with_space: Served) -> None:
    http, version = with_space.http, with_space.store.version
    dry = {"dryRun": "All"}
    made = await http.post(ADDRESSES, json=body(), params=dry)
    assert (made.status_code, made.json()["spec"]["address"]) == (201, "orders")
    assert made.json()["metadata"]["uid"]
    bad = await http.post(ADDRESSES, json=body(spec={"type": "x", "address": "a"}), params=dry)
    assert bad.status_code == 422
    assert with_space.store.version == version
    await http.post(ADDRESSES, json=body())
    await with_space.settle()
    version = with_space.store.version
    plan = {"spec": {"plan": "small"}}
    patched = await http.patch(PATH, json=plan, headers=MERGE, params=dry)
    assert patched.json()["spec"]["plan"] == "small"
    there = (await http.get(PATH)).json()["metadata"]["resourceVersion"]
    labelled = {"metadata": {"labels": {"a": "b"}, "resourceVersion": there}}
    replaced = await http.put(PATH, json=body() | labelled, params=dry)
    assert replaced.json()["metadata"]["labels"] == {"a": "b"}
    assert (await http.request("DELETE", PATH, params=dry)).json()["status"] == "Success"
    assert (await http.request("DELETE", PATH, json={"dryRun": ["All"]})).status_code == 200
    assert with_space.store.version == version
    refused = await http.post(ADDRESSES, json=body(), params={"dryRun": "Some"})
    assert (refused.status_code, refused.json()["reason"]) == (422, "Invalid")


UNKNOWN = {"type": "queue", "address": "orders", "colour": "red", "messageTtl": {"most": 1}}


async def test_unknown_fields_are_dropped_with_a_warning(with_space: Served) -> None:
    made = await with_space.http.post(ADDRESSES, json=body(spec=UNKNOWN))
    assert made.status_code == 201
    assert made.json()["spec"] == {"type": "queue", "address": "orders", "messageTtl": {}}
    assert made.headers.get_list("Warning") == [
        '299 - "unknown field \\"spec.messageTtl.most\\""',
        '299 - "unknown field \\"spec.colour\\""',
    ]


async def test_field_validation_parameter_refuses_or_ignores_unknown_fields(
    with_space: Served,
) -> None:
    strict = {"fieldValidation": "Strict"}
    refused = await with_space.http.post(ADDRESSES, json=body(spec=UNKNOWN), params=strict)
    assert refused.status_code == 422
    causes = refused.json()["details"]["causes"]
    assert {cause["field"] for cause in causes} == {"spec.colour", "spec.messageTtl.most"}
    assert refused.json()["details"]["name"] == "default.orders"
    assert refused.json()["details"]["kind"] == "Address"
    passed = await with_space.http.post(
        ADDRESSES, json=body(spec=UNKNOWN), params={"fieldValidation": "Ignore"}
    )
    assert passed.status_code == 201
    assert "Warning" not in passed.headers
    other = await with_space.http.post(
        ADDRESSES, json=body(), params={"fieldValidation": "Sometimes"}
    )
    assert other.json()["details"]["causes"][0]["field"] == "fieldValidation"


async def test_duplicate_json_key_is_refused(with_space: Served) -> None:
    text = '{"metadata": {"name": "default.a", "name": "default.b"}}'
    answer = await with_space.http.post(ADDRESSES, content=text)
    assert answer.status_code == 400
    assert "duplicate key 'name'" in answer.json()["message"]


def test_duplicate_json_key_is_found_in_linear_time() -> None:
    compared = 0

    class Name(str):
        """A name that counts its comparisons."""

        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [Name(f"name{number}") for number in range(2_000)]
    with pytest.raises(ValueError, match="duplicate key 'name1999'"):
        bodies._once_each([(name, 0) for name in (*names, Name("name1999"))])
    assert compared < 10 * len(names)


async def test_generate_name_appends_a_random_suffix(with_space: Served) -> None:
    made = await with_space.http.post(
        ADDRESSES, json=body(metadata={"generateName": "default.tmp-"})
    )
    name = made.json()["metadata"]["name"]
    assert name.startswith("default.tmp-")
    assert len(name) == len("default.tmp-") + 5


async def test_finalizers_defer_deletion_until_they_are_removed(with_address: Served) -> None:
    http = with_address.http
    keep = {"metadata": {"finalizers": ["example.com/drain"]}}
    await http.patch(PATH, json=keep, headers=MERGE)
    await with_address.settle()
    deleted = await http.delete(PATH)
    assert deleted.json()["metadata"]["deletionTimestamp"]
    assert (await http.delete(PATH)).status_code == 200
    await with_address.settle()
    kept = (await http.get(PATH)).json()
    assert (kept["status"]["phase"], kept["status"]["isReady"]) == ("Terminating", False)
    assert "example.com/drain" in kept["status"]["messages"][0]
    assert len(with_address.engine.plan.spaces[0].addresses) == 1
    held = await http.delete(f"{SPACES}/default")
    assert (held.status_code, "finalizers" in held.json()["message"]) == (409, True)
    more = {"metadata": {"finalizers": ["example.com/drain", "example.com/late"]}}
    late = await http.patch(PATH, json=more, headers=MERGE)
    assert late.status_code == 422
    assert [cause["field"] for cause in late.json()["details"]["causes"]] == ["metadata.finalizers"]
    assert "example.com/late" in late.json()["message"]
    await http.patch(PATH, json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert (await http.get(PATH)).status_code == 404
    await with_address.settle()
    assert with_address.engine.plan.spaces[0].addresses == ()


async def test_delete_honours_a_resource_version_precondition(with_address: Served) -> None:
    stale = {"preconditions": {"resourceVersion": "1"}}
    refused = await with_address.http.request("DELETE", PATH, json=stale)
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    version = (await with_address.http.get(PATH)).json()["metadata"]["resourceVersion"]
    right = {"preconditions": {"resourceVersion": version}}
    assert (await with_address.http.request("DELETE", PATH, json=right)).status_code == 200


async def test_status_subresource_is_read_only(with_address: Served) -> None:
    http = with_address.http
    await with_address.settle()
    read = (await http.get(f"{PATH}/status")).json()
    assert read == (await http.get(PATH)).json()
    forged = {"status": {"isReady": False, "phase": "Failed"}}
    assert (await http.patch(f"{PATH}/status", json=forged, headers=MERGE)).status_code == 405
    assert (await http.put(f"{PATH}/status", json=read)).status_code == 405
    await http.patch(PATH, json=forged, headers=MERGE)
    assert (await http.get(PATH)).json()["status"]["isReady"] is True


async def test_json_patch_changes_only_the_paths_it_names(with_address: Served) -> None:
    http = with_address.http
    operations = [
        {"op": "test", "path": "/spec/address", "value": "orders"},
        {"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}},
        {"op": "add", "path": "/spec/plan", "value": "small"},
    ]
    patched = await http.patch(PATH, json=operations, headers=JSON)
    assert patched.json()["spec"]["plan"] == "small"
    failed = await http.patch(
        PATH, json=[{"op": "test", "path": "/spec/plan", "value": "large"}], headers=JSON
    )
    assert (failed.status_code, failed.json()["reason"]) == (422, "Invalid")
    gone = await http.patch(PATH, json=[{"op": "remove", "path": ""}], headers=JSON)
    assert gone.status_code == 422
    stale = [{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]
    assert (await http.patch(PATH, json=stale, headers=JSON)).status_code == 409
    strategic = {"Content-Type": "application/strategic-merge-patch+json"}
    assert (await http.patch(PATH, json={}, headers=strategic)).status_code == 415


async def test_invalid_labels_are_refused(with_space: Served) -> None:
    for labels in ({"a b": "c"}, {"a": "b c"}, {"/a": "b"}, {"a": "x" * 64}):
        bad = body(metadata={"name": "default.orders", "labels": labels})
        answer = await with_space.http.post(ADDRESSES, json=bad)
        assert answer.status_code == 422
        assert answer.json()["details"]["causes"][0]["field"] == "metadata.labels"


async def test_config_maps_and_secrets_are_stored(served: Served) -> None:
    made = await served.http.post(
        f"{CORE}/secrets",
        json={"metadata": {"name": "s"}, "stringData": {"a": "pencil"}, "data": {"b": "eA=="}},
    )
    assert made.json()["data"] == {"a": "cGVuY2ls", "b": "eA=="}
    assert (made.json()["type"], "stringData" in made.json()) == ("Opaque", False)
    strategic = {"Content-Type": "application/strategic-merge-patch+json"}
    patch = {"data": {"b": None}, "immutable": True}
    patched = await served.http.patch(f"{CORE}/secrets/s", json=patch, headers=strategic)
    assert patched.json()["data"] == {"a": "cGVuY2ls"}
    late = {"data": {"a": "eA=="}}
    refused = await served.http.patch(f"{CORE}/secrets/s", json=late, headers=strategic)
    assert refused.json()["details"]["causes"][0]["field"] == "data"
    for data in ({"a": "not base64"}, {"a b": "eA=="}):
        bad = await served.http.post(
            f"{CORE}/secrets", json={"metadata": {"name": "t"}, "data": data}
        )
        assert bad.status_code == 422
    await served.http.post(
        f"{CORE}/configmaps", json={"metadata": {"name": "c"}, "data": {"a": "1"}}
    )
    assert (await served.http.get(f"{CORE}/configmaps/c")).json()["data"] == {"a": "1"}


async def test_namespace_is_created_with_its_first_resource(served: Served) -> None:
    north = space(namespace="north").document() | {"status": {}}
    path = SPACES.replace("namespaces/default", "namespaces/north")
    assert (await served.http.post(path, json=north)).status_code == 201
    listed = (await served.http.get("/api/v1/namespaces")).json()["items"]
    assert [one["metadata"]["name"] for one in listed] == ["default", "north"]
    assert "namespace" not in listed[0]["metadata"]
    assert (await served.http.delete("/api/v1/namespaces/default")).status_code == 403
    assert (await served.http.delete("/api/v1/namespaces/north")).status_code == 200
    assert (await served.http.get(f"{path}/default")).status_code == 404


async def test_messaging_user_is_the_same_resource_in_both_groups(with_space: Served) -> None:
    both = [
        f"/apis/{group}.io/v1beta1/namespaces/default/messagingusers"
        for group in ("enmasse", "user.enmasse")
    ]
    document = user().document() | {"apiVersion": "user.enmasse.io/v1beta1", "status": {}}
    document["metadata"]["annotations"] = {
        LAST_APPLIED: '{"spec":{"authentication":{"type":"password","password":"cGVuY2ls"}}}'
    }
    made = await with_space.http.post(both[1], json=document)
    assert made.json()["apiVersion"] == "user.enmasse.io/v1beta1"
    read = await with_space.http.get(f"{both[0]}/default.alice")
    assert read.json()["apiVersion"] == "enmasse.io/v1beta1"
    assert "cGVuY2ls" not in read.text
    copy = '{"spec":{"authentication":{"type":"password"}}}\n'
    assert read.json()["metadata"]["annotations"][LAST_APPLIED] == copy


async def test_resource_change_emits_a_read_only_event(with_address: Served) -> None:
    await with_address.settle()
    stored = with_address.store.get(address().key)
    assert isinstance(stored, Address)
    selects = {"fieldSelector": f"involvedObject.uid={stored.metadata.uid}"}
    events = (await with_address.http.get(f"{CORE}/events", params=selects)).json()["items"]
    assert [(event["reason"], event["type"]) for event in events] == [("Served", "Normal")]
    assert events[0]["involvedObject"]["name"] == "default.orders"
    assert events[0]["source"] == {"component": "enmasse"}
    one = f"{CORE}/events/{events[0]['metadata']['name']}"
    assert (await with_address.http.get(one)).status_code == 200
    assert (await with_address.http.delete(one)).status_code == 405
    assert (await with_address.http.post(f"{CORE}/events", json={})).status_code == 405


async def test_create_with_a_resource_version_is_refused(served: Served) -> None:
    made = body()
    made["metadata"]["resourceVersion"] = "5"
    refused = await served.http.post(ADDRESSES, json=made)
    assert refused.status_code == 400
    assert refused.json()["message"] == "resourceVersion should not be set on objects to be created"


async def test_create_of_an_existing_config_map_has_the_kubernetes_message(served: Served) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "once"}}
    assert (await served.http.post(path, json=made)).status_code == 201
    refused = (await served.http.post(path, json=made)).json()
    assert (refused["code"], refused["reason"]) == (409, "AlreadyExists")
    assert refused["message"] == 'configmaps "once" already exists'
    assert (refused["details"]["name"], refused["details"]["kind"]) == ("once", "configmaps")
