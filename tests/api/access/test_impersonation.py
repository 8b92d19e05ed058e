"""Requests with `Impersonate-User`."""

import json

import pytest

from asgi_platform import ADDRESSES, SPACES, Served, bearer, body
from doubles import space
from enmasse.base.rotated import RotatedFile

PLANS = "/apis/admin.enmasse.io/v1beta2/namespaces/enmasse-infra/addressplans"


async def test_only_the_owner_and_service_admins_may_impersonate(served: Served) -> None:
    await bearer(served, "ci.x", tenant_edit="default")
    admin = await bearer(served, "admin.x", service_admin="*")
    tenant = await bearer(served, "other.x", tenant_edit="*")
    for client, status in ((served.http, 200), (admin, 200), (tenant, 403)):
        answer = await client.get(SPACES, headers={"Impersonate-User": "ci"})
        assert answer.status_code == status
        if status == 403:
            assert 'cannot impersonate resource "users"' in answer.json()["message"]
    unnamed = await served.http.get(SPACES, headers={"Impersonate-Group": "system:masters"})
    assert unnamed.status_code == 400
    stranger = served.client()
    asked = await stranger.get(SPACES, headers={"Impersonate-User": "enmasse:token"})
    assert asked.status_code == 401


async def test_impersonating_owner_has_only_the_rights_of_the_impersonated_user(
    served: Served,
) -> None:
    await bearer(served, "viewer.x", tenant_view="default")
    as_viewer = {"Impersonate-User": "viewer"}
    assert (await served.http.get(ADDRESSES, headers=as_viewer)).status_code == 200
    refused = await served.http.post(SPACES, json=body(space()), headers=as_viewer)
    assert refused.status_code == 403
    assert 'User "viewer" cannot create' in refused.json()["message"]
    as_nobody = {"Impersonate-User": "nobody", "Impersonate-Group": "enmasse:service-admin"}
    assert (await served.http.get(ADDRESSES, headers=as_nobody)).status_code == 403


@pytest.mark.parametrize("name", ["tenant", "enmasse:token"])
async def test_impersonation_grants_no_additional_rights(served: Served, name: str) -> None:
    await bearer(served, "tenant.x", tenant_edit="*")
    admin = await bearer(served, "admin.x", service_admin="*")
    headers = {"Impersonate-User": name}
    assert (await admin.post(SPACES, json=body(space()), headers=headers)).status_code == 403
    assert (
        await admin.get("/api/v1/namespaces/default/secrets", headers=headers)
    ).status_code == 403


async def test_audit_record_names_caller_and_impersonated_user(
    served: Served, trail: RotatedFile
) -> None:
    await bearer(served, "ci.x", tenant_edit="default")
    await served.http.post(SPACES, json=body(space()), headers={"Impersonate-User": "ci"})
    record = json.loads(trail.last(1)[0])
    assert (record["who"], record["as"], record["verb"]) == ("enmasse:token", "ci", "create")
