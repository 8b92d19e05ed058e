"""The official Python client and lightkube, against a platform as a user starts it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import lightkube
import pytest
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import PatchType

from platform_process import Platform

# Starting the process of the platform takes long on a busy machine.
pytestmark = pytest.mark.timeout(120)

GROUP, VERSION, PLURAL = "enmasse.io", "v1beta1", "addresses"
WHERE = (GROUP, VERSION, "default", PLURAL)


def orders(name: str = "default.orders", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Address",
        "metadata": {"name": name, "labels": {"team": "north"}},
        "spec": {"type": "queue", "address": name.partition(".")[2]} | spec,
    }


@pytest.fixture(scope="module")
def kubeconfig(platform: Platform) -> Path:
    return platform.data / "kubeconfig"


@pytest.fixture(scope="module")
def official(kubeconfig: Path) -> Iterator[kubernetes.client.ApiClient]:
    with kubernetes.config.new_client_from_config(str(kubeconfig)) as client:
        yield client
        client.rest_client.pool_manager.clear()


@pytest.fixture(scope="module")
def objects(official: kubernetes.client.ApiClient) -> kubernetes.client.CustomObjectsApi:
    return kubernetes.client.CustomObjectsApi(official)


def _replace_plan(objects: kubernetes.client.CustomObjectsApi, plan: str) -> dict[str, Any]:
    """Read, change and replace; retry while a status update of the platform conflicts."""
    while True:
        read = objects.get_namespaced_custom_object(*WHERE, "default.orders")
        read["spec"]["plan"] = plan
        try:
            replaced: dict[str, Any] = objects.replace_namespaced_custom_object(
                *WHERE, "default.orders", read
            )
        except kubernetes.client.ApiException as conflict:
            if conflict.status != 409:
                raise
        else:
            return replaced


def test_official_client_creates_lists_patches_and_deletes(
    objects: kubernetes.client.CustomObjectsApi,
) -> None:
    made = objects.create_namespaced_custom_object(*WHERE, orders())
    assert made["metadata"]["uid"]
    for selector in ({"label_selector": "team=north"}, {"field_selector": "spec.address=orders"}):
        listed = objects.list_namespaced_custom_object(*WHERE, **selector)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["default.orders"]
    page = objects.list_namespaced_custom_object(*WHERE, limit=1)
    rest = objects.list_namespaced_custom_object(*WHERE, _continue=page["metadata"]["continue"])
    assert len(rest["items"]) == page["metadata"]["remainingItemCount"]
    merged = objects.patch_namespaced_custom_object(
        *WHERE, "default.orders", {"spec": {"plan": "standard-small-queue"}},
        _content_type="application/merge-patch+json",
    )  # fmt: skip
    assert merged["spec"]["plan"] == "standard-small-queue"
    replaced = _replace_plan(objects, "standard-large-queue")
    assert replaced["spec"]["plan"] == "standard-large-queue"
    with pytest.raises(kubernetes.client.ApiException) as stale:
        objects.replace_namespaced_custom_object(*WHERE, "default.orders", merged)
    assert stale.value.status == 409
    gone = objects.delete_namespaced_custom_object(*WHERE, "default.orders")
    assert gone["status"] == "Success"
    with pytest.raises(kubernetes.client.ApiException) as missing:
        objects.get_namespaced_custom_object(*WHERE, "default.orders")
    assert missing.value.reason == "Not Found"


def test_official_client_watches_changes(objects: kubernetes.client.CustomObjectsApi) -> None:
    watch = kubernetes.watch.Watch()
    version = objects.list_namespaced_custom_object(*WHERE)["metadata"]["resourceVersion"]
    objects.create_namespaced_custom_object(*WHERE, orders("default.seen"))
    seen = []
    for event in watch.stream(
        objects.list_namespaced_custom_object, *WHERE, resource_version=version, timeout_seconds=30
    ):
        if event["object"]["metadata"]["name"] != "default.seen":
            continue
        seen.append(event["type"])
        if event["type"] == "ADDED":
            objects.delete_namespaced_custom_object(*WHERE, "default.seen")
        elif event["type"] == "DELETED":
            watch.stop()
    assert (seen[0], seen[-1]) == ("ADDED", "DELETED")


def test_official_dynamic_client_discovers_the_kinds(
    official: kubernetes.client.ApiClient, tmp_path: Path
) -> None:
    dynamic = kubernetes.dynamic.DynamicClient(official, cache_file=str(tmp_path / "cache"))
    addresses = dynamic.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Address")
    applied = dynamic.server_side_apply(
        addresses, orders("default.applied"), namespace="default", field_manager="tests"
    )
    assert applied.metadata.managedFields[0].manager == "tests"
    assert addresses.get(name="default.applied", namespace="default").spec.type == "queue"
    addresses.delete(name="default.applied", namespace="default")


def test_official_client_handles_the_built_in_kinds(
    official: kubernetes.client.ApiClient,
) -> None:
    core = kubernetes.client.CoreV1Api(official)
    core.create_namespace({"metadata": {"name": "south"}})
    secret = {"metadata": {"name": "s"}, "stringData": {"a": "b"}}
    assert core.create_namespaced_secret("south", secret).data == {"a": "Yg=="}
    assert "south" in [one.metadata.name for one in core.list_namespace().items]
    served = core.list_namespaced_event("default", field_selector="reason=Served").items
    assert {event.involved_object.kind for event in served} == {"Address", "AddressSpace"}
    core.delete_namespace("south")
    access = kubernetes.client.AuthorizationV1Api(official)
    asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "addresses"}}}
    assert access.create_self_subject_access_review(asked).status.allowed
    assert kubernetes.client.VersionApi(official).get_code().major == "1"


@pytest.fixture
def light(kubeconfig: Path) -> Iterator[lightkube.Client]:
    config = lightkube.KubeConfig.from_file(kubeconfig).get()
    client = lightkube.Client(config=config, field_manager="light")
    yield client
    client.close()


Address = create_namespaced_resource(GROUP, VERSION, "Address", PLURAL)


def test_lightkube_applies_patches_and_deletes(light: lightkube.Client) -> None:
    name = "default.light"
    made = light.apply(Address.from_dict(orders(name, plan="standard-medium-queue")))
    assert made.spec["plan"] == "standard-medium-queue"
    light.wait(Address, name, for_conditions=["Ready"])
    patched = light.patch(Address, name, {"spec": {"plan": None}}, patch_type=PatchType.MERGE)
    assert patched.spec["plan"] == "standard-medium-queue"
    operations = [{"op": "add", "path": "/metadata/labels/tier", "value": "1"}]
    light.patch(Address, name, operations, patch_type=PatchType.JSON)
    (found,) = light.list(Address, labels={"tier": "1"})
    assert found.metadata.name == name
    with pytest.raises(lightkube.ApiError) as bad:
        light.create(Address.from_dict(orders("default.bad", type="unicast")))
    assert bad.value.status.details.causes[0].field == "spec.type"
    light.delete(Address, name)
    with pytest.raises(lightkube.ApiError) as missing:
        light.get(Address, name)
    assert missing.value.status.reason == "NotFound"


def test_lightkube_watches_and_pages(light: lightkube.Client) -> None:
    for name in ("first", "second"):
        light.create(ConfigMap.from_dict({"metadata": {"name": name}, "data": {"a": "1"}}))
    seen = []
    for type_, found in light.watch(ConfigMap, server_timeout=30):
        assert found.metadata is not None
        seen.append((type_, found.metadata.name))
        if seen[-1] == ("ADDED", "second"):
            light.delete(ConfigMap, "second")
        elif type_ == "DELETED":
            break
    assert seen == [("ADDED", "first"), ("ADDED", "second"), ("DELETED", "second")]
    paged = [one.metadata.name for one in light.list(Namespace, chunk_size=1)]
    assert "default" in paged
    light.delete(ConfigMap, "first")
