"""Responses of authentication servers are bounded, and yield a grant or a clear refusal."""

import gzip
import json
import math
import string
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import TestClock
from enmasse.auth.external import grant_of
from enmasse.auth.fetching import DOCUMENT_BYTES_MAX, Answer, fetch
from enmasse.auth.grants import Grant, Refused, Unanswered
from enmasse.auth.issuers import TokenChecker, realm_of_keycloak
from enmasse.auth.keys import KEYS_MAX, public_keys
from enmasse.resources.messaging_user import PATTERNS_MAX, WILDCARDS_MAX, has_wildcard
from http_servers import Quiet, served_by
from token_issuer import KEY, Issuer

pytestmark = pytest.mark.anyio

Replies = Mapping[str, tuple[int, Mapping[str, str], bytes]]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@contextmanager
def replying(replies: Replies) -> Iterator[str]:
    """Serve each response at its path; `/endless` never ends, `/silent` sends headers only."""
    ended = threading.Event()

    class Handler(Quiet):
        def do_GET(self) -> None:
            if self.path in ("/endless", "/silent"):
                self.send_response(200)
                self.end_headers()
                while self.path == "/endless" and not ended.is_set():
                    try:
                        self.wfile.write(b" " * 65_536)
                    except OSError:
                        return
                ended.wait()
                return
            status, headers, body = replies[self.path]
            self.answer(status, body, headers)

    with served_by(Handler) as url:
        try:
            yield url
        finally:
            ended.set()


async def test_fetch_follows_no_redirect_and_reads_no_html_as_json() -> None:
    replies: Replies = {
        "/moved": (302, {"location": "/there"}, b""),
        "/there": (200, {}, b'{"keys": []}'),
        "/page": (200, {"content-type": "text/html"}, b"<html>Log in</html>"),
        "/named": (200, {"content-type": "text/plain"}, b'{"keys": []}'),
    }
    with replying(replies) as url:
        moved = await fetch(f"{url}/moved")
        assert (moved.status, moved.document()) == (302, {})
        assert (await fetch(f"{url}/page")).document() == {}
        # The content decides, not the content type.
        assert (await fetch(f"{url}/named")).document() == {"keys": []}


async def test_fetch_bounds_the_size_and_the_time_of_a_response() -> None:
    bomb = gzip.compress(b" " * (DOCUMENT_BYTES_MAX * 64))
    whole = json.dumps({"pad": "x" * (DOCUMENT_BYTES_MAX - 20)}).encode()
    replies: Replies = {
        "/bomb": (200, {"content-encoding": "gzip"}, bomb),
        "/whole": (200, {}, whole),
        "/large": (200, {}, whole + b" " * 20),
    }
    with replying(replies) as url:
        assert (await fetch(f"{url}/whole")).document()["pad"]
        for path in ("large", "endless"):
            with pytest.raises(Unanswered, match=f"more than {DOCUMENT_BYTES_MAX} bytes"):
                await fetch(f"{url}/{path}")
        assert (await fetch(f"{url}/bomb")).document() == {}, "content is not decompressed"
        with pytest.raises(Unanswered, match="does not answer"):
            await fetch(f"{url}/silent", timeout_s=0.2)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_response_body_reads_as_an_object_or_an_empty_one(body: bytes) -> None:
    assert isinstance(Answer(200, body).document(), dict)
    assert all(isinstance(one, dict) for one in Answer(200, body).members())


def test_deeply_nested_response_body_reads_as_empty() -> None:
    assert Answer(200, b"[" * 200_000).document() == {}
    assert Answer(200, b'{"a":' * 100_000).members() == []


class Answering(Issuer):
    """A Keycloak realm that gives a fixed response to every password."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__("https://keycloak.example/realms/r")
        self._answer = Answer(status, body)

    async def fetch(
        self, url: str, *, form: Mapping[str, str] | None = None, ca: str | None = None
    ) -> Answer:
        return await super().fetch(url, ca=ca) if form is None else self._answer


async def decided(realm: Answering) -> Grant | Refused | Unanswered:
    """Return the grant or the refusal for a password."""
    issuer = realm_of_keycloak(
        *("https://keycloak.example", "r"),
        audience=None,
        client_id="enmasse",
        client_secret=None,
        ca=None,
    )
    try:
        return await TokenChecker(issuer, realm.fetch, TestClock()).password("alice", "secret")
    except (Refused, Unanswered) as error:
        assert "secret" not in str(error) and len(str(error)) < 500
        return error


DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "access_token": JSON,
        "error": JSON,
        "error_description": JSON | st.text(min_size=1000, max_size=2000),
    },
)


@given(
    st.sampled_from([200, 201, 204, 302, 400, 401, 403, 404, 429, 500, 503]),
    st.binary(max_size=50) | (DOCUMENTS | JSON).map(lambda value: json.dumps(value).encode()),
)
@settings(deadline=None)
async def test_password_response_without_a_valid_token_admits_no_user(
    status: int, body: bytes
) -> None:
    verdict = await decided(Answering(status, body))
    assert isinstance(verdict, Refused if status in (400, 401) else Refused | Unanswered)
    if status not in (200, 400, 401):
        assert isinstance(verdict, Unanswered)


TOKENS = st.text(string.ascii_letters + string.digits + "-_.=+ /\n\0é", max_size=80)
CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "exp": st.sampled_from([4e9, 1e300, -1, True, "soon", math.inf]) | JSON,
        "nbf": JSON,
        "aud": JSON,
        "preferred_username": JSON | st.just("alice"),
        "groups": JSON | st.lists(st.text(max_size=20), max_size=5),
    },
)


@given(TOKENS)
@settings(deadline=None)
async def test_malformed_access_token_is_rejected(token: str) -> None:
    verdict = await decided(Answering(200, json.dumps({"access_token": token}).encode()))
    assert isinstance(verdict, Refused | Unanswered)


@given(CLAIMS)
@settings(deadline=None, max_examples=50)
async def test_signed_claims_yield_a_grant_with_user_and_expiry_or_a_refusal(
    claims: dict[str, Any],
) -> None:
    realm = Answering(200, b"")
    try:
        token = realm.token(KEY, **{"exp": None, "aud": None, "sub": None} | claims)
    except (ValueError, TypeError):
        return  # These claims have no JSON form.
    realm._answer = Answer(200, json.dumps({"access_token": token}).encode())
    verdict = await decided(realm)
    if isinstance(verdict, Grant):
        assert verdict.user == claims["preferred_username"]
        assert verdict.expires is not None and verdict.expires > TestClock().now()
        bounded(verdict)
    else:
        assert isinstance(verdict, Refused), str(verdict)


@given(JSON)
def test_key_set_skips_malformed_keys_and_is_bounded(document: object) -> None:
    good = KEY.as_dict(private=False)
    odd = [{"kty": kind, "n": document, "e": document} for kind in ("RSA", "EC", "oct")]
    assert public_keys({"keys": document}) == []
    found = public_keys({"keys": [document, *odd, good]})
    assert [key.kid for key in found] == ["one"]
    assert len(public_keys({"keys": [good] * (KEYS_MAX + 5)})) == KEYS_MAX


PATTERNS = st.text("ab/*#+", min_size=1, max_size=6)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "authenticated-identity": JSON
        | st.fixed_dictionaries({}, optional={"preferred_username": JSON, "sub": JSON}),
        "groups": JSON | st.lists(PATTERNS.map(lambda one: f"send_{one}"), max_size=1000),
        "address-authz": JSON
        | st.dictionaries(PATTERNS | st.integers(), JSON | st.just(["send"]), max_size=50),
    },
)


def bounded(grant: Grant) -> None:
    """Check that a grant is within the bounds of the node."""
    assert len(grant.rights) <= 2 * PATTERNS_MAX
    assert all(right.operations for right in grant.rights)
    wild = [right for right in grant.rights if has_wildcard(right.pattern)]
    assert len(wild) <= WILDCARDS_MAX


@given(PROPERTIES)
@settings(deadline=None)
def test_external_properties_yield_a_bounded_grant_or_a_refusal(
    said: dict[str, Any],
) -> None:
    try:
        grant = grant_of(said)
    except Refused as refused:
        assert str(refused)
        return
    assert grant.user and grant.user.isprintable()
    assert len(grant.rights) <= PATTERNS_MAX
    bounded(grant)
