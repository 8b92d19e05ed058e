"""Logins, sessions and their protection."""

import asyncio
from typing import Any

import pytest

from asgi_platform import ADDRESSES, TOKEN, Served, bearer
from browsers import SESSION, Browser, browser
from enmasse.auth.roles import OWNER
from enmasse.auth.sessions import CODE_S, RECORDS_OF_ONE_MAX
from enmasse.resources import Key, Secret
from enmasse.resources.api_token import TOKENS_NAMESPACE
from tokens import token_secret

OTHER = ADDRESSES.replace("default", "other")


async def code_of(served: Served) -> str:
    answer = await served.http.post("/console/codes", json={})
    assert answer.status_code == 201
    document: dict[str, Any] = answer.json()
    assert document["path"] == f"/console/login#code={document['code']}"
    return str(document["code"])


async def test_a_token_logs_in_and_its_roles_apply(tenant: Browser) -> None:
    session = (await tenant.http.get(SESSION)).json()
    assert (session["user"], session["method"]) == ("ci", "token")
    assert session["roles"] == {"tenant-edit": ["default"]}
    assert session["may"] == {"operate": False, "readAll": False, "namespaces": ["default"]}
    assert (await tenant.http.get(ADDRESSES)).status_code == 200
    refused = await tenant.http.get(OTHER)
    assert refused.status_code == 403
    assert 'User "ci" cannot list resource "addresses"' in refused.json()["message"]


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(served: Served) -> None:
    async with browser(served.app) as page:
        cookie = (await page.log_in(token=TOKEN)).headers["set-cookie"]
        assert cookie.startswith("enmasse-session=")
        for attribute in ("HttpOnly", "SameSite=strict", "Path=/"):
            assert attribute in cookie
        assert "Secure" not in cookie
        assert TOKEN not in cookie
    async with browser(served.app, scheme="https") as page:
        cookie = (await page.log_in(token=TOKEN)).headers["set-cookie"]
        assert cookie.startswith("__Host-enmasse-session=")
        assert "Secure" in cookie
        assert (await page.http.get(SESSION)).json()["isOwner"]


async def test_the_store_has_no_cookie_and_no_token(served: Served, owner: Browser) -> None:
    code = await code_of(served)
    cookie = owner.http.cookies["enmasse-session"]
    for secret in served.store.list("Secret", TOKENS_NAMESPACE):
        assert isinstance(secret, Secret)
        texts = " ".join(secret.text(name) or "" for name in secret.data)
        for hidden in (code, cookie, TOKEN, owner.csrf):
            assert hidden not in texts
    assert len(served.store.list("Secret", TOKENS_NAMESPACE)) == 2


@pytest.mark.parametrize(
    "given", [{"token": "ci.wrong"}, {"token": ""}, {"code": "0123456789abcdef.x"}, {"code": ""}]
)
async def test_a_wrong_token_or_code_is_refused(served: Served, given: dict[str, str]) -> None:
    async with browser(served.app) as page:
        answer = await page.log_in(**given)
        assert answer.status_code == 401
        assert answer.json()["details"]["code"] == "E2008"
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("body", [{}, {"token": TOKEN, "code": "x"}, {"token": 1}, {"user": "x"}])
async def test_a_malformed_login_names_the_fields(served: Served, body: dict[str, Any]) -> None:
    async with browser(served.app) as page:
        answer = await page.http.post(SESSION, json=body)
    assert answer.status_code == 422
    assert "either `token` or `code`" in answer.json()["message"]


async def test_wrong_tokens_and_codes_make_their_source_wait(served: Served) -> None:
    for given in ({"token": "ci.wrong"}, {"code": "0123456789abcdef.x"}):
        async with browser(served.app, peer="192.0.2.1") as page:
            tried = [(await page.log_in(**given)).status_code for _ in range(7)]
            assert tried == [401] * 5 + [429] * 2


async def test_a_code_logs_in_once(served: Served) -> None:
    code = await code_of(served)
    async with browser(served.app) as first, browser(served.app) as second:
        answer = await first.log_in(code=code)
        assert answer.json()["user"] == OWNER
        assert (await second.log_in(code=code)).status_code == 401


async def test_a_code_expires(served: Served) -> None:
    code = await code_of(served)
    served.clock.advance(CODE_S)
    async with browser(served.app) as page:
        assert (await page.log_in(code=code)).status_code == 401


async def test_a_code_of_a_deleted_token_is_void(served: Served) -> None:
    client = await bearer(served, "ci.x", tenant_edit="default")
    code = (await client.post("/console/codes", json={})).json()["code"]
    await served.store.delete([Key("Secret", TOKENS_NAMESPACE, "ci")])
    async with browser(served.app) as page:
        assert (await page.log_in(code=code)).status_code == 401


async def test_of_concurrent_redemptions_one_succeeds(served: Served) -> None:
    code = await code_of(served)
    async with browser(served.app) as page:
        answers = await asyncio.gather(
            *(page.http.post(SESSION, json={"code": code}) for _ in range(8))
        )
    assert sorted(one.status_code for one in answers) == [201] + [401] * 7


async def test_codes_need_a_token(served: Served, owner: Browser) -> None:
    async with served.client() as http:
        assert (await http.post("/console/codes", json={})).status_code == 401
    refused = await owner.send("POST", "/console/codes", json={})
    assert refused.status_code == 403
    assert "cannot extend itself" in refused.json()["message"]


async def test_a_code_is_for_the_bearer_itself(served: Served) -> None:
    await served.store.put([token_secret("tenant.x", tenant_edit="*")])
    operator = await bearer(served, "op.x", service_admin="*")
    headers = {"Impersonate-User": "tenant"}
    assert (await operator.get(SESSION, headers=headers)).json()["user"] == "tenant"
    refused = await operator.post("/console/codes", json={}, headers=headers)
    assert refused.status_code == 403
    assert len(served.store.list("Secret", TOKENS_NAMESPACE)) == 2


@pytest.mark.parametrize("given", [None, "wrong", "é"])
async def test_a_change_without_the_csrf_token_is_refused(
    owner: Browser, given: str | None
) -> None:
    headers = [(b"x-csrf-token", given.encode())] if given is not None else []
    answer = await owner.http.post(ADDRESSES, json={}, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["details"]["code"] == "E2006"
    assert (await owner.http.delete(SESSION, headers=headers)).status_code == 403
    assert (await owner.http.get(SESSION)).status_code == 200


async def test_the_csrf_token_of_another_session_is_refused(
    owner: Browser, tenant: Browser
) -> None:
    assert owner.csrf != tenant.csrf
    headers = {"X-CSRF-Token": tenant.csrf}
    assert (await owner.http.post(ADDRESSES, json={}, headers=headers)).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_pages_of_other_origins_are_refused(
    served: Served, owner: Browser, headers: dict[str, str]
) -> None:
    for answer in (
        await owner.http.get(ADDRESSES, headers=headers),
        await owner.send("POST", ADDRESSES, json={}, headers=headers),
        await owner.http.post(SESSION, json={"token": TOKEN}, headers=headers),
    ):
        assert answer.status_code == 403
        assert answer.json()["details"]["code"] == "E2007"


async def test_the_own_origin_is_accepted(owner: Browser) -> None:
    headers = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert (await owner.http.get(ADDRESSES, headers=headers)).status_code == 200


async def test_a_bearer_needs_no_csrf_token_and_ignores_the_cookie(
    served: Served, tenant: Browser
) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Origin": "https://other.example"}
    answer = await tenant.http.get(SESSION, headers=headers)
    assert (answer.json()["user"], answer.json()["method"]) == (OWNER, "bearer")
    assert (await tenant.http.post(OTHER, json={}, headers=headers)).status_code == 422


async def test_logout_ends_the_session(served: Served, owner: Browser) -> None:
    cookie = owner.http.cookies["enmasse-session"]
    answer = await owner.send("DELETE", SESSION)
    assert answer.status_code == 204
    assert "enmasse-session" not in owner.http.cookies
    async with browser(served.app) as thief:
        thief.http.cookies.set("enmasse-session", cookie, domain="localhost")
        assert (await thief.http.get(SESSION)).status_code == 401


async def test_a_session_ends_after_idling(served: Served, owner: Browser) -> None:
    served.clock.advance(3500)
    assert (await owner.http.get(SESSION)).status_code == 200
    served.clock.advance(3500)
    assert (await owner.http.get(SESSION)).status_code == 200
    served.clock.advance(3700)
    assert (await owner.http.get(SESSION)).status_code == 401


async def test_requests_of_timers_do_not_extend_a_session(served: Served, owner: Browser) -> None:
    for _ in range(4):
        served.clock.advance(1000)
        answer = await owner.http.get(ADDRESSES, headers={"X-Background": "1"})
    assert answer.status_code == 401


async def test_a_session_ends_at_its_absolute_lifetime(served: Served, owner: Browser) -> None:
    for _ in range(13):
        assert (await owner.http.get(SESSION)).status_code == 200
        served.clock.advance(3400)
    assert (await owner.http.get(SESSION)).status_code == 401


async def test_a_session_ends_with_its_token(served: Served, tenant: Browser) -> None:
    await served.store.put([token_secret("ci.other", tenant_edit="default")])
    assert (await tenant.http.get(SESSION)).status_code == 401, "the token was replaced"
    await served.store.put([token_secret("ci.x", tenant_view="default")])
    assert (await tenant.http.get(SESSION)).json()["roles"] == {"tenant-view": ["default"]}
    await served.store.delete([Key("Secret", TOKENS_NAMESPACE, "ci")])
    assert (await tenant.http.get(SESSION)).status_code == 401


async def test_sessions_of_one_person_are_bounded(served: Served) -> None:
    async with browser(served.app) as first:
        await first.log_in(token=TOKEN)
        for _ in range(RECORDS_OF_ONE_MAX):
            served.clock.advance(1)
            async with browser(served.app) as page:
                await page.log_in(token=TOKEN)
        assert (await first.http.get(SESSION)).status_code == 401
    assert len(served.store.list("Secret", TOKENS_NAMESPACE)) == RECORDS_OF_ONE_MAX


async def test_expired_sessions_are_removed_with_the_next_login(
    served: Served, owner: Browser
) -> None:
    served.clock.advance(50_000)
    async with browser(served.app) as page:
        await page.log_in(token=TOKEN)
    assert len(served.store.list("Secret", TOKENS_NAMESPACE)) == 1


async def test_no_role_reads_sessions(served: Served, owner: Browser) -> None:
    tenant = await bearer(served, "all.x", tenant_edit="*", service_admin="*")
    path = f"/api/v1/namespaces/{TOKENS_NAMESPACE}/secrets"
    assert (await tenant.get(path)).status_code == 403


async def test_a_login_is_in_the_audit_trail(served: Served, owner: Browser) -> None:
    records = (await owner.http.get("/apis/enmasse.io/v1beta1/audit")).text.splitlines()
    assert any('"path": "/console/session"' in one and OWNER in one for one in records)
    assert TOKEN not in "".join(records)
