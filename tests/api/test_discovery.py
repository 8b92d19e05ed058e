"""Discovery in both forms, and the other requests that clients send first."""

import pytest

from asgi_platform import Served

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_discovery_lists_groups_and_versions(served: Served) -> None:
    groups = (await served.http.get("/apis")).json()
    assert groups["kind"] == "APIGroupList"
    names = [group["name"] for group in groups["groups"]]
    assert names[0] == "enmasse.io"
    assert {"user.enmasse.io", "authorization.k8s.io"} <= set(names)
    one = (await served.http.get("/apis/enmasse.io")).json()
    assert (one["kind"], one["preferredVersion"]["version"]) == ("APIGroup", "v1beta1")
    core = (await served.http.get("/api")).json()
    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])


async def test_discovery_lists_kinds_with_their_verbs(served: Served) -> None:
    listed = (await served.http.get("/apis/enmasse.io/v1beta1")).json()["resources"]
    kinds = {kind["name"]: kind for kind in listed}
    operations = ("purge", "peek", "move", "copy", "redrive")
    assert set(kinds) == {
        *("addressspaces", "addresses", "messagingusers", "addressspaceschemas", "pipelines"),
        *("addressspaces/status", "addresses/status", "messagingusers/status"),
        "pipelines/status",
        *(f"addresses/{operation}" for operation in (*operations, "deadletters", "send", "links")),
        *("connections", "addressspaces/accessreviews"),
    }
    address = kinds["addresses"]
    assert (address["singularName"], address["shortNames"]) == ("address", ["addr"])
    assert "watch" in address["verbs"]
    assert "deletecollection" in address["verbs"]
    assert kinds["addresses/status"]["verbs"] == ["get"]
    assert kinds["addressspaceschemas"]["verbs"] == ["get", "list", "watch"]
    assert kinds["addressspaceschemas"]["namespaced"] is False
    core = (await served.http.get("/api/v1")).json()["resources"]
    scopes = {kind["name"]: kind["namespaced"] for kind in core}
    assert scopes["namespaces"] is False
    assert scopes["secrets"] is True
    assert next(kind for kind in core if kind["name"] == "events")["verbs"] == [
        "get", "list", "watch",
    ]  # fmt: skip


async def test_kind_in_two_groups_has_its_short_name_in_only_one(served: Served) -> None:
    listed = (await served.http.get("/apis/user.enmasse.io/v1beta1")).json()["resources"]
    assert [kind["name"] for kind in listed] == ["messagingusers", "messagingusers/status"]
    assert "shortNames" not in listed[0]


@pytest.mark.parametrize(
    ("path", "group", "resource"),
    [("/apis", "enmasse.io", "addresses"), ("/api", "", "namespaces")],
)
async def test_aggregated_discovery_returns_one_document(
    served: Served, path: str, group: str, resource: str
) -> None:
    accept = f"{AGGREGATED},application/json"
    answer = await served.http.get(path, headers={"Accept": accept})
    assert answer.headers["content-type"] == AGGREGATED
    document = answer.json()
    assert document["kind"] == "APIGroupDiscoveryList"
    found = {item["metadata"].get("name", ""): item for item in document["items"]}
    resources = {one["resource"]: one for one in found[group]["versions"][0]["resources"]}
    one = resources[resource]
    assert one["scope"] == ("Namespaced" if group else "Cluster")
    assert one["responseKind"]["version"] == ("v1beta1" if group else "v1")
    parts = [part["subresource"] for part in one["subresources"]]
    assert "status" in parts
    assert ("purge" in parts) is (group != "")


async def test_discovery_prefers_the_first_accepted_form(served: Served) -> None:
    accept = f"application/json,{AGGREGATED}"
    answer = await served.http.get("/apis", headers={"Accept": accept})
    assert answer.json()["kind"] == "APIGroupList"


async def test_version_has_the_fields_of_a_kubernetes_version(served: Served) -> None:
    version = (await served.http.get("/version")).json()
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.0+enmasse-")
    required = {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"}
    assert all(isinstance(version[name], str) for name in required)


async def test_self_subject_reviews_allow_the_owner_everything(served: Served) -> None:
    base = "/apis/authorization.k8s.io/v1"
    asked = {"spec": {"resourceAttributes": {"verb": "create", "resource": "addresses"}}}
    answer = await served.http.post(f"{base}/selfsubjectaccessreviews", json=asked)
    assert answer.status_code == 201
    assert answer.json()["status"]["allowed"] is True
    assert answer.json()["spec"] == asked["spec"]
    for spec in ({}, {"resourceAttributes": {}, "nonResourceAttributes": {}}, "x"):
        refused = await served.http.post(f"{base}/selfsubjectaccessreviews", json={"spec": spec})
        assert (refused.status_code, refused.json()["reason"]) == (422, "Invalid")
    other = {"kind": "Address", "spec": {}}
    wrong = await served.http.post(f"{base}/selfsubjectaccessreviews", json=other)
    assert wrong.json()["details"]["causes"][0]["field"] == "kind"
    rules = await served.http.post(f"{base}/selfsubjectrulesreviews", json={"spec": {}})
    assert rules.json()["status"]["resourceRules"][0]["verbs"] == ["*"]
    who = await served.http.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={})
    assert who.json()["status"]["userInfo"]["username"] == "enmasse:token"


async def test_discovery_lists_the_newest_version_first(served: Served) -> None:
    group = (await served.http.get("/apis/admin.enmasse.io")).json()
    assert group["preferredVersion"]["version"] == "v1beta2"
    assert [one["version"] for one in group["versions"]] == ["v1beta2", "v1beta1"]
    newer = (await served.http.get("/apis/admin.enmasse.io/v1beta2")).json()["resources"]
    older = (await served.http.get("/apis/admin.enmasse.io/v1beta1")).json()["resources"]
    newer, older = ({one["name"] for one in listed} for listed in (newer, older))
    assert newer == {
        *("addressplans", "addressplans/status"),
        *("addressspaceplans", "addressspaceplans/status"),
    }
    assert newer < older
    assert {"standardinfraconfigs", "brokeredinfraconfigs", "authenticationservices"} < older


async def test_list_of_custom_resource_definitions_is_empty(served: Served) -> None:
    """kubectl lists these before it reports that a kind has no matches."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    listed = (await served.http.get(path)).json()
    assert (listed["kind"], listed["items"]) == ("CustomResourceDefinitionList", [])
