"""Logins and bearers of an identity provider."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey

from asgi_platform import ADDRESSES, Served, serving
from browsers import SESSION, Browser, browser
from enmasse.api.console.oidc import path_within
from enmasse.api.console.routes import ConsoleOptions, Federation
from enmasse.auth.authorization_code import LoginState, Provider
from enmasse.auth.bearers import Claims, is_jwt, roles_of
from enmasse.auth.fetching import Answer
from enmasse.base.rotated import RotatedFile
from token_issuer import Issuer

OTHER = ADDRESSES.replace("default", "other")
CLIENT = "enmasse-console"


class IdentityProvider(Issuer):
    """An issuer at which people log in; `person` are the claims of the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.person: dict[str, Any] = {}
        self.access: dict[str, Any] = {}
        self.asked_with: dict[str, list[str]] = {}
        self.tokens: list[Mapping[str, str]] = []
        """Forms that the token endpoint received."""

    def document(self, path: str) -> dict[str, Any]:
        found = super().document(path)
        if "jwks_uri" in found:
            for name in ("authorization", "token"):
                found[f"{name}_endpoint"] = f"{self.url}/{name}"
        return found

    async def fetch(
        self, url: str, *, form: Mapping[str, str] | None = None, ca: str | None = None
    ) -> Answer:
        if form is None or self.silent:
            return await super().fetch(url, form=form, ca=ca)
        self.tokens.append(form)
        challenge = LoginState("", "", form["code_verifier"], "").challenge()
        if form["code"] != "good" or challenge != self.asked_with["code_challenge"][0]:
            return Answer(400, b'{"error": "invalid_grant"}')
        nonce = self.asked_with["nonce"][0]
        person = {"aud": CLIENT, "preferred_username": "alice", "nonce": nonce} | self.person
        tokens = {
            "id_token": self.token(**person),
            "access_token": self.token(preferred_username="alice", aud="account", **self.access),
        }
        return Answer(200, json.dumps(tokens).encode())


@pytest.fixture
def provider() -> IdentityProvider:
    return IdentityProvider()


@pytest.fixture
async def federated(
    provider: IdentityProvider, trail: RotatedFile, logins: RotatedFile
) -> AsyncIterator[Served]:
    federation = Federation(
        Provider(provider.url, CLIENT, "client-secret"),
        audience="enmasse",
        claims=Claims(roles="realm_access.roles"),
    )
    options = ConsoleOptions(federation=federation, fetch=provider.fetch)
    async with serving(trail, logins, options) as served:
        yield served


def holding(*roles: str) -> dict[str, Any]:
    return {"realm_access": {"roles": list(roles)}}


async def start(page: Browser, provider: IdentityProvider, then: str = "/console/x") -> str:
    """Begin a login; return the path of its end with a good code."""
    answer = await page.http.get("/console/oidc/start", params={"then": then})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert "SameSite=lax" in cookie
    assert "Max-Age=600" in cookie
    assert "HttpOnly" in cookie
    url = urlsplit(answer.headers["location"])
    assert url.path == "/authorization"
    provider.asked_with = parse_qs(url.query)
    assert provider.asked_with["code_challenge_method"] == ["S256"]
    callback = "http://localhost/console/oidc/callback"
    assert provider.asked_with["redirect_uri"] == [callback]
    return f"/console/oidc/callback?code=good&state={provider.asked_with['state'][0]}"


async def test_a_person_logs_in_with_the_roles_of_a_claim(
    federated: Served, provider: IdentityProvider
) -> None:
    provider.person = holding("tenant-edit:default", "unrelated")
    async with browser(federated.app) as page:
        methods = (await page.http.get("/console/login-methods")).json()
        assert methods["oidc"] == {"name": "issuer.example", "start": "/console/oidc/start"}
        answer = await page.http.get(await start(page, provider))
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/x")
        session = (await page.http.get(SESSION)).json()
        assert (session["user"], session["method"]) == ("oidc:alice", "oidc")
        assert session["roles"] == {"tenant-edit": ["default"]}
        assert (await page.http.get(ADDRESSES)).status_code == 200
        assert (await page.http.get(OTHER)).status_code == 403
    assert provider.tokens[0]["client_secret"] == "client-secret"


async def test_roles_may_be_in_the_access_token(
    federated: Served, provider: IdentityProvider
) -> None:
    provider.access = holding("service-admin")
    async with browser(federated.app) as page:
        await page.http.get(await start(page, provider))
        session = (await page.http.get(SESSION)).json()
        assert session["may"]["operate"]


async def test_a_person_without_a_role_is_refused(
    federated: Served, provider: IdentityProvider
) -> None:
    async with browser(federated.app) as page:
        answer = await page.http.get(await start(page, provider))
        assert answer.headers["location"].startswith("/console/login?error=your%20account")
        assert (await page.http.get(SESSION)).status_code == 401


@pytest.mark.parametrize("wrong", ["state", "cookie", "code", "nonce", "aud", "signature"])
async def test_a_forged_callback_is_refused(
    federated: Served, provider: IdentityProvider, wrong: str
) -> None:
    provider.person = holding("tenant-edit")
    async with browser(federated.app) as page:
        path = await start(page, provider)
        match wrong:
            case "state":
                path += "x"
            case "cookie":
                page.http.cookies.clear()
            case "code":
                path = path.replace("good", "bad")
            case "signature":
                provider.keys.insert(0, RSAKey.generate_key(2048, {"kid": "two"}))
            case claim:
                provider.person[claim] = "other"
        answer = await page.http.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/console/login?error=")
        assert (await page.http.get(SESSION)).status_code == 401


async def test_a_silent_provider_is_reported(federated: Served, provider: IdentityProvider) -> None:
    provider.silent = True
    async with browser(federated.app) as page:
        answer = await page.http.get("/console/oidc/start")
        assert "does%20not%20answer" in answer.headers["location"]
        assert (await page.log_in(token="the-token")).status_code == 201


async def test_the_api_accepts_access_tokens(federated: Served, provider: IdentityProvider) -> None:
    async with federated.client() as http:
        for audience, status in (("enmasse", 200), ("account", 401)):
            token = provider.token(aud=audience, **holding("tenant-view:default"))
            headers = {"Authorization": f"Bearer {token}"}
            assert (await http.get(ADDRESSES, headers=headers)).status_code == status
        token = provider.token(aud="enmasse", **holding("tenant-view:default"))
        headers = {"Authorization": f"Bearer {token}"}
        assert (await http.get(OTHER, headers=headers)).status_code == 403
        assert (await http.post(ADDRESSES, json={}, headers=headers)).status_code == 403


async def test_tokens_are_refused_without_a_provider(served: Served) -> None:
    token = Issuer().token(aud="enmasse", groups=["service-admin"])
    async with served.client() as http:
        headers = {"Authorization": f"Bearer {token}"}
        assert (await http.get(ADDRESSES, headers=headers)).status_code == 401
        assert (await http.get("/console/login-methods")).json()["oidc"] is None


def test_roles_of_a_claim() -> None:
    assert roles_of(["/tenant-edit:shop", "tenant-edit:lab", "tenant-view"]) == {
        "tenant-edit": {"shop", "lab"},
        "tenant-view": {"*"},
    }
    assert roles_of(["mq-service-admin", "service-admin"], "mq-") == {"service-admin": {"*"}}
    for nothing in (None, 7, ["metrics", "root", 7, "tenant-edit:Not A Name"], {"a": "b"}):
        assert roles_of(nothing) == {}
    assert roles_of("tenant-view:shop") == {"tenant-view": {"shop"}}


@pytest.mark.parametrize(
    "path",
    [
        "https://evil.example/",
        "//evil.example/console/",
        "/console/\\evil",
        "/x",
        "",
        "/console/\n",
    ],
)
def test_a_login_ends_within_the_console(path: str) -> None:
    assert path_within(path) == "/console/"
    assert path_within("/console/a?b=c#d") == "/console/a?b=c#d"


@pytest.mark.parametrize("text", ["", "x", "W10=", "WzEsMiwzLDRd", "eyJ9", "x" * 5000])
def test_a_malformed_login_state_is_refused(text: str) -> None:
    assert LoginState.decoded(text) is None


def test_a_token_of_the_platform_is_not_taken_for_a_jwt() -> None:
    assert is_jwt(Issuer().token())
    for token in ("ci.abc", "a.b.c", "the-token", "eyJhIjoxfQ.b.c"):
        assert not is_jwt(token)


async def test_a_session_ends_before_that_of_a_token(
    provider: IdentityProvider, federated: Served
) -> None:
    provider.person = holding("tenant-edit:default")
    async with browser(federated.app) as page:
        await page.http.get(await start(page, provider))
        federated.clock.advance(3590)
        await page.http.get(SESSION)
        federated.clock.advance(20)
        assert (await page.http.get(SESSION)).status_code == 401
