"""Logins of people at a running Keycloak: the console, and its tokens at the API."""

import html
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from keycloak.server import free_port, keycloak, realm
from platform_process import running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PASSWORD = "wonderland"
CALLBACK = "http://127.0.0.1:{}/console/oidc/callback"
"""Keycloak compares it as a whole: a wildcard is for the end only."""
ADDRESSES = "/apis/enmasse.io/v1beta1/namespaces/{}/addresses"


def logged_in(http: httpx2.Client, origin: str, user: str) -> httpx2.Response:
    """Log in as a browser does: the form of Keycloak, and its redirect back."""
    start = f"{origin}/console/oidc/start"
    page = http.get(start, params={"then": "/console/namespaces"}, follow_redirects=True)
    assert page.status_code == 200, page.text
    found = re.search(r'action="([^"]+)"', page.text)
    assert found is not None
    # A browser sends Secure cookies to loopback without TLS too (Secure Contexts, 3.1).
    for cookie in http.cookies.jar:
        cookie.secure = False
    form = {"username": user, "password": PASSWORD}
    answer = http.post(html.unescape(found[1]), data=form)
    assert answer.status_code == 302, answer.text
    return http.get(answer.headers["location"])


def bearer_of(issuer: str, user: str) -> dict[str, str]:
    """Return the header with an access token of a user, as a client would get it."""
    form = {
        "grant_type": "password",
        "client_id": "enmasse",
        "username": user,
        "password": PASSWORD,
        "scope": "openid",
    }
    url = f"{issuer}/protocol/openid-connect/token"
    answer = httpx2.post(url, data=form, trust_env=False, timeout=60)
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


@pytest.mark.parametrize(
    ("claim", "by_group"),
    [("groups", True), ("realm_access.roles", False)],
    ids=["groups", "roles"],
)
def test_people_log_in_with_the_roles_of_a_claim(
    tmp_path: Path, claim: str, by_group: bool
) -> None:
    """Groups are in the ID token. Keycloak states realm roles in access tokens only, by default."""
    given = {
        "alice": ["tenant-edit:default"],
        "ops": ["service-admin"],
        "viewer": ["tenant-view:default", "tenant-edit:lab"],
        "none": ["unrelated"],
    }
    port = free_port()
    groups = given if by_group else {user: [] for user in given}
    roles = {} if by_group else given
    declared = realm("staff", groups, PASSWORD, [CALLBACK.format(port)], roles)
    with keycloak(tmp_path, declared) as url:
        issuer = f"{url}/realms/staff"
        arguments = ("--http-port", str(port), "--oidc-issuer", issuer, "--oidc-roles-claim", claim)
        with running(tmp_path / "data", *arguments) as platform:
            origin = platform.url("http")
            sessions: dict[str, Any] = {}
            for user in given:
                with httpx2.Client(trust_env=False, timeout=60) as http:
                    answer = logged_in(http, origin, user)
                    assert answer.status_code == 303
                    sessions[user] = (
                        answer.headers["location"],
                        http.get(f"{origin}/console/session"),
                        http.get(f"{origin}{ADDRESSES.format('default')}").status_code,
                        http.get(f"{origin}{ADDRESSES.format('other')}").status_code,
                    )
            where, session, own, other = sessions["alice"]
            assert (where, own, other) == ("/console/namespaces", 200, 403)
            assert session.json()["user"] == "oidc:alice"
            assert session.json()["roles"] == {"tenant-edit": ["default"]}
            assert sessions["ops"][1].json()["may"]["operate"]
            expected = {"tenant-edit": ["lab"], "tenant-view": ["default"]}
            assert sessions["viewer"][1].json()["roles"] == expected
            where, session, own, _ = sessions["none"]
            assert (session.status_code, own) == (401, 401)
            assert "has%20no%20role" in where
            bearer = bearer_of(issuer, "alice")
            for namespace, status in (("default", 200), ("other", 403)):
                path = f"{origin}{ADDRESSES.format(namespace)}"
                assert httpx2.get(path, headers=bearer, trust_env=False).status_code == status
            written = {
                "metadata": {"name": "default.made"},
                "spec": {"address": "made", "type": "anycast"},
            }
            path = f"{origin}{ADDRESSES.format('default')}"
            for user, status in (("alice", 201), ("viewer", 403), ("none", 403)):
                headers = bearer_of(issuer, user)
                answer = httpx2.post(path, json=written, headers=headers, trust_env=False)
                assert answer.status_code == status, answer.text
