"""Rights at the API by role. T-AS-8: a tenant creates in its own namespace, not in another."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from starlette.requests import Request

from asgi_platform import ADDRESSES, SPACES, USERS, Served, bearer, body
from doubles import address, queue, space, space_plan
from enmasse.api.access.reviews import STILL, while_allowed
from enmasse.base.clock import rfc3339
from enmasse.base.rotated import RotatedFile
from enmasse.resources import Key
from enmasse.resources.api_token import TOKENS_NAMESPACE
from tokens import token_secret

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
PLANS = "/apis/admin.enmasse.io/v1beta1/namespaces/enmasse-infra/addressspaceplans"
API = "/apis/enmasse.io/v1beta1"
OTHER = ADDRESSES.replace("default", "other")
SECRETS = "/api/v1/namespaces/{}/secrets"


async def test_T_AS_8_a_tenant_edits_its_own_namespace_only(served: Served) -> None:
    tenant = await bearer(served, "ci.x", tenant_edit="default")
    assert (await tenant.post(SPACES, json=body(space()))).status_code == 201
    assert (await tenant.post(ADDRESSES, json=body(queue()))).status_code == 201
    assert (await tenant.delete(f"{ADDRESSES}/default.orders")).status_code == 200
    elsewhere = SPACES.replace("default", "other")
    refused = await tenant.post(elsewhere, json=body(space(), "other"))
    assert refused.status_code == 403
    status = refused.json()
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "Forbidden", 403)
    assert status["message"] == (
        'addressspaces.enmasse.io is forbidden: User "ci" cannot create resource "addressspaces"'
        ' in API group "enmasse.io" in the namespace "other"; it needs the role tenant-edit in'
        " other"
    )
    about = {name: status["details"].get(name) for name in ("kind", "group", "code")}
    assert about == {"kind": "addressspaces", "group": "enmasse.io", "code": "E2000"}
    assert served.store.get(Key("AddressSpace", "other", "default")) is None


async def test_a_body_cannot_name_another_namespace(served: Served) -> None:
    tenant = await bearer(served, "ci.x", tenant_edit="default")
    assert (await tenant.post(SPACES, json=body(space(), "other"))).status_code == 422
    secret = token_secret("evil.y", tenant_edit="*").document()
    assert (await tenant.post(SECRETS.format("default"), json=secret)).status_code == 422
    secret["metadata"]["namespace"] = "default"
    refused = await tenant.post(SECRETS.format("default"), json=secret)
    assert refused.status_code == 422
    assert refused.json()["details"]["causes"][0]["field"] == "metadata.namespace"


@pytest.mark.parametrize("path", [OTHER, f"{API}/addresses", SECRETS.format(TOKENS_NAMESPACE),
                                  "/api/v1/secrets", "/api/v1/namespaces", PLANS, f"{API}/audit",
                                  f"{API}/logs", f"{API}/backup", f"{API}/connections", "/nothing",
                                  f"{ADDRESSES}/../../other/addresses"])  # fmt: skip
async def test_tenant_request_outside_its_namespace_is_forbidden(served: Served, path: str) -> None:
    tenant = await bearer(served, "ci.x", tenant_edit="default")
    assert (await tenant.get(path)).status_code == 403
    watched = await tenant.get(path, params={"watch": "true", "timeoutSeconds": "1"})
    assert watched.status_code == 403


@pytest.mark.parametrize(
    "path", [f"{ADDRESSES}%2Fdefault.orders%2Fpurge", f"/{ADDRESSES}", f"{ADDRESSES}/a/b/c"]
)
async def test_non_canonical_path_is_forbidden(served: Served, path: str) -> None:
    viewer = await bearer(served, "v.x", tenant_view="default")
    assert (await viewer.post(path, json={})).status_code == 403
    nobody = await bearer(served, "n.x")
    assert (await nobody.post(path, json={})).status_code == 403


async def test_tenant_view_role_cannot_change_resources(served: Served) -> None:
    await served.http.post(SPACES, json=body(space()))
    await served.http.post(ADDRESSES, json=body(queue()))
    viewer = await bearer(served, "v.x", tenant_view="default")
    assert (await viewer.get(f"{ADDRESSES}/default.orders")).status_code == 200
    assert (await viewer.get(USERS)).status_code == 200
    one = f"{ADDRESSES}/default.orders"
    assert (await viewer.post(ADDRESSES, json=body(address()))).status_code == 403
    assert (await viewer.put(one, json=body(queue()))).status_code == 403
    assert (await viewer.patch(one, json={})).status_code == 403
    assert (await viewer.delete(one)).status_code == 403
    assert (await viewer.delete(ADDRESSES)).status_code == 403
    for operation in ("purge", "peek", "move", "copy", "redrive"):
        assert (await viewer.post(f"{one}/{operation}", json={})).status_code == 403
    assert (await viewer.get(SECRETS.format("default"))).status_code == 403


async def test_service_admin_manages_plans_but_no_spaces_or_secrets(served: Served) -> None:
    admin = await bearer(served, "a.x", service_admin="*")
    plan = body(space_plan("p", []), "enmasse-infra")
    made = await admin.post(PLANS, json=plan)
    assert made.status_code in (201, 422), made.text  # authorized, even if it is not valid
    assert (await admin.get(f"{API}/addresses")).status_code == 200
    assert (await admin.get(f"{API}/audit")).status_code == 200
    assert (await admin.post(SPACES, json=body(space()))).status_code == 403
    assert (await admin.get(SECRETS.format("default"))).status_code == 403
    assert (await admin.get(f"{API}/backup")).status_code == 403


async def test_only_a_service_admin_changes_the_default_space(served: Served) -> None:
    namespace = "/api/v1/namespaces/enmasse-infra"
    named = {"metadata": {"annotations": {"enmasse.io/default-space": "default.default"}}}
    patch = {"json": named, "headers": {"Content-Type": "application/merge-patch+json"}}
    await served.http.post("/api/v1/namespaces", json={"metadata": {"name": "enmasse-infra"}})
    await served.http.post(SPACES, json=body(space()))
    for role in ("tenant_edit", "tenant_view"):
        tenant = await bearer(served, f"{role.replace('_', '-')}.x", **{role: "*"})
        assert (await tenant.patch(namespace, **patch)).status_code == 403
    admin = await bearer(served, "admin.x", service_admin="*")
    assert (await admin.patch(namespace, **patch)).status_code == 200
    await served.settle()
    assert served.engine.applied[-1].default_space == "default.default"


async def test_self_subject_access_review_matches_the_authorization_decision(
    served: Served,
) -> None:
    tenant = await bearer(served, "ci.x", tenant_edit="default")
    questions = [
        ({"verb": "create", "group": "enmasse.io", "resource": "addresses"}, True),
        ({"verb": "create", "group": "enmasse.io", "resource": "addressspaceschemas"}, False),
        ({"verb": "create", "group": "enmasse.io", "resource": "addresses",
          "subresource": "purge"}, True),
        ({"verb": "*", "group": "enmasse.io", "resource": "addresses"}, False),
        ({"verb": "list", "resource": "secrets"}, True),
        ({"verb": "get", "resource": "namespaces", "name": "default"}, True),
        ({"verb": "get", "resource": "namespaces", "name": "other"}, False),
        ({"verb": "get", "group": "admin.enmasse.io", "resource": "addressplans"}, False),
    ]  # fmt: skip
    for attributes, allowed in questions:
        asked = {"spec": {"resourceAttributes": attributes | {"namespace": "default"}}}
        answer = await tenant.post(REVIEWS, json=asked)
        assert answer.status_code == 201
        assert answer.json()["status"]["allowed"] is allowed, attributes
        elsewhere = {"spec": {"resourceAttributes": attributes | {"namespace": "other"}}}
        same = attributes["resource"] == "namespaces" and allowed
        assert (await tenant.post(REVIEWS, json=elsewhere)).json()["status"]["allowed"] is same
        assert (await served.http.post(REVIEWS, json=asked)).json()["status"]["allowed"] is True
    page = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}}
    assert (await tenant.post(REVIEWS, json=page)).json()["status"]["allowed"] is False
    page["spec"]["nonResourceAttributes"]["path"] = "/version"
    assert (await tenant.post(REVIEWS, json=page)).json()["status"]["allowed"] is True


async def test_self_subject_reviews_return_rules_and_identity_of_the_caller(served: Served) -> None:
    tenant = await bearer(served, "ci.x", tenant_edit="default")
    told = (await tenant.post(RULES, json={"spec": {"namespace": "default"}})).json()["status"]
    edits = [one for one in told["resourceRules"] if "create" in one["verbs"]]
    assert any("addresses" in one["resources"] for one in edits)
    assert all("*" not in one["verbs"] for one in told["resourceRules"])
    none = (await tenant.post(RULES, json={"spec": {"namespace": "other"}})).json()["status"]
    assert not any("addresses" in one["resources"] for one in none["resourceRules"])
    who = (await tenant.post(WHOAMI, json={})).json()["status"]["userInfo"]
    assert who == {"username": "ci", "groups": ["system:authenticated", "enmasse:tenant-edit"]}


async def test_watch_ends_when_its_right_is_revoked() -> None:
    allowed = True

    async def lines() -> AsyncIterator[int]:
        nonlocal allowed
        yield 1
        allowed = False
        yield 2
        raise AssertionError("the watch continues without the right")

    request = Request({"type": "http", STILL: lambda: allowed})
    assert [line async for line in while_allowed(request, lines())] == [1]


async def test_watch_ends_before_the_next_change_once_its_token_expires(served: Served) -> None:
    """A watch whose token expires ends before the next change."""
    await served.http.post(SPACES, json=body(space()))
    since = served.store.version
    await served.http.post(ADDRESSES, json=body(address()))
    ends = rfc3339(served.clock.now() + timedelta(seconds=1))
    tenant = await bearer(served, "ci.x", tenant_view="default", expires=ends)
    parameters = {"watch": "true", "resourceVersion": str(since), "timeoutSeconds": "1"}
    before = served.clock.now
    moments = iter([before()])
    # The token is valid when the watch begins and has expired at the first change.
    served.clock.now = lambda: next(moments, before() + timedelta(seconds=2))  # type: ignore[method-assign]
    answer = await tenant.get(ADDRESSES, params=parameters)
    assert (answer.status_code, answer.text) == (200, "")


async def test_audit_record_names_the_caller(served: Served, trail: RotatedFile) -> None:
    tenant = await bearer(served, "ci.x", tenant_edit="default")
    await tenant.post(SPACES, json=body(space()))
    await tenant.get(OTHER)
    made, refused = (json.loads(line) for line in trail.last(2))
    assert (made["who"], made["decision"], made["resource"]) == ("ci", "allowed", "addressspaces")
    assert (refused["who"], refused["decision"], refused["verb"]) == ("ci", "refused", "list")
    assert (refused["namespace"], refused["code"], refused["reason"]) == (
        "other", "E2000", "Forbidden",
    )  # fmt: skip
    assert "ci.x" not in "".join(trail.last(100))
