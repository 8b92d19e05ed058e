"""Tokens: subject, audience, expiry, and ways to forge one. RFC 7519, RFC 8725."""

import base64
import hmac
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from doubles import TestClock
from enmasse.auth.grants import Refused, Unanswered
from enmasse.auth.issuers import Issuer as Issuance
from enmasse.auth.issuers import TokenChecker
from enmasse.auth.keys import FRESH_S, STALE_S, UNKNOWN_KEY_PAUSE_S, public_keys
from enmasse.auth.tokens import Expected
from token_issuer import AUDIENCE, ISSUER, KEY, Issuer

pytestmark = pytest.mark.anyio

ALGORITHMS = ("RS256", "ES256", "Ed25519")


def checker(
    issuer: Issuer, clock: TestClock | None = None, *, jwks_uri: str | None = None, **other: Any
) -> TokenChecker:
    given = {
        "issuer": issuer.url,
        "audience": AUDIENCE,
        "user_claim": "sub",
        "groups_claim": "groups",
        "algorithms": ALGORITHMS,
    }
    expected = Expected(**(given | other))
    now = clock or TestClock(datetime.now(UTC))
    return TokenChecker(Issuance(expected, jwks_uri), issuer.fetch, now)


async def test_valid_token_grants_its_user_rights_and_expiry() -> None:
    issuer = Issuer()
    ends = int(time.time()) + 60
    groups = ["send_orders", "/recv_news%2F%23", "monitor", "staff", 7]
    grant = await checker(issuer).token(issuer.token(groups=groups, exp=ends), None)
    assert (grant.user, grant.expires) == ("alice", datetime.fromtimestamp(ends, UTC))
    rights = [(right.pattern, right.operations) for right in grant.rights]
    assert rights == [("orders", ("send",)), ("news/#", ("recv",)), ("#", ("view",))]
    assert issuer.asked == [f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys"]


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other.default"}, "aud"),
        ({"aud": None}, "aud"),
        ({"aud": ["a", "b"]}, "aud"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "tomorrow"}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": 10**20}, "exp"),
        ({"nbf": int(time.time()) + 86_400}, "nbf"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "sub"),
        ({"sub": ["alice"]}, "sub"),
        ({"sub": "al\nice"}, "printable"),
        ({"sub": "a" * 256}, "255 bytes"),
    ],
)
async def test_token_with_a_wrong_claim_is_rejected(claims: dict[str, Any], why: str) -> None:
    issuer = Issuer()
    with pytest.raises(Refused, match=why) as refused:
        await checker(issuer).token(token := issuer.token(**claims), None)
    assert token not in str(refused.value)


async def test_token_with_nbf_30_s_ahead_is_accepted() -> None:
    issuer = Issuer()
    token = issuer.token(nbf=int(time.time()) + 30, aud=["x", AUDIENCE])
    assert (await checker(issuer).token(token, "alice")).user == "alice"


def encoded(part: object) -> str:
    return base64url(json.dumps(part).encode())


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


async def test_a_forged_token_is_refused() -> None:
    issuer = Issuer()
    good = issuer.token()
    head, payload, signature = good.split(".")
    unsigned = encoded({"alg": "none", "kid": "one"})
    # The public key as the secret of an HMAC (RFC 8725, 2.1).
    by_hmac = encoded({"alg": "HS256", "kid": "one"}) + "." + payload
    confused = [
        by_hmac + "." + base64url(hmac.digest(secret, by_hmac.encode(), "sha256"))
        for secret in (KEY.as_pem(private=False), json.dumps(KEY.as_dict(private=False)).encode())
    ]
    other = RSAKey.generate_key(2048, {"kid": "one"})
    forged = [
        f"{unsigned}.{payload}.",
        f"{unsigned}.{payload}.{signature}",
        f"{head}.{encoded(issuer.claims(sub='bob'))}.{signature}",
        f"{head}.{payload}.",
        f"{head}.{payload}",
        *confused,
        issuer.token(other),
        issuer.token(header={"kid": None, "jwk": other.as_dict(private=False)}, key=other),
        issuer.token(header={"alg": "RS512"}),
        issuer.token(header={"crit": ["b64"], "b64": False}),
        "",
        "...",
        "\u00e4.b.c",
    ]
    check = checker(issuer)
    assert (await check.token(good, None)).user == "alice"
    for token in forged:
        with pytest.raises(Refused):
            await check.token(token, None)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (ECKey.generate_key("P-256", {"kid": "e"}), "ES256"),
        (OKPKey.generate_key("Ed25519", {"kid": "e"}), "Ed25519"),
    ],
)
async def test_tokens_signed_by_ec_and_ed25519_keys_are_accepted(
    key: ECKey | OKPKey, algorithm: str
) -> None:
    issuer = Issuer(ISSUER, KEY, key)
    token = issuer.token(key, header={"alg": algorithm, "kid": "e"})
    assert (await checker(issuer).token(token, None)).user == "alice"
    # A signature by a key of another type under the same key id.
    wrong = issuer.token(KEY, header={"kid": "e"})
    with pytest.raises(Refused, match="key id 'e'"):
        await checker(issuer).token(wrong, None)


async def test_token_without_key_id_needs_a_key_set_of_one_key() -> None:
    issuer = Issuer()
    token = issuer.token(header={"kid": None})
    assert (await checker(issuer).token(token, None)).user == "alice"
    issuer.keys.append(RSAKey.generate_key(2048, {"kid": "two"}))
    with pytest.raises(Refused, match="no key id"):
        await checker(issuer).token(token, None)


async def test_token_of_another_user_than_the_client_names_is_rejected() -> None:
    issuer = Issuer()
    with pytest.raises(Refused, match="'alice', not to 'bob'"):
        await checker(issuer).token(issuer.token(), "bob")


async def test_user_and_groups_come_from_the_configured_claims() -> None:
    issuer = Issuer()
    check = checker(issuer, user_claim="email", groups_claim="realm_access.roles")
    token = issuer.token(email="a@b.c", realm_access={"roles": ["recv_orders"]})
    grant = await check.token(token, None)
    assert (grant.user, [right.pattern for right in grant.rights]) == ("a@b.c", ["orders"])


async def test_unknown_key_id_refetches_the_key_set_at_most_once_per_pause() -> None:
    issuer, clock = Issuer(), TestClock(datetime.now(UTC))
    check = checker(issuer, clock, jwks_uri=f"{ISSUER}/keys")
    await check.token(issuer.token(), None)
    new = RSAKey.generate_key(2048, {"kid": "two"})
    token = issuer.token(new, header={"kid": "two"})
    issuer.keys.append(new)
    for _ in range(5):
        with pytest.raises(Refused, match="'two'"):
            await check.token(token, None)
    assert len(issuer.asked) == 1, "the key set is not fetched again within the pause"
    clock.advance(UNKNOWN_KEY_PAUSE_S)
    assert (await check.token(token, None)).user == "alice"
    for _ in range(5):
        with pytest.raises(Refused, match="'three'"):
            await check.token(issuer.token(new, header={"kid": "three"}), None)
    assert len(issuer.asked) == 2


async def test_cached_keys_serve_until_stale_while_the_issuer_is_silent() -> None:
    issuer, clock = Issuer(), TestClock(datetime.now(UTC))
    check = checker(issuer, clock, jwks_uri=f"{ISSUER}/keys")
    ends = int(time.time() + 10 * STALE_S)
    token = issuer.token(exp=ends)
    await check.token(token, None)
    issuer.silent = True
    clock.advance(FRESH_S + 1)
    assert (await check.token(token, None)).user == "alice"
    clock.advance(STALE_S)
    with pytest.raises(Unanswered):
        await check.token(token, None)
    asked = len(issuer.asked)
    with pytest.raises(Unanswered, match="could not be fetched"):
        await check.token(token, None)
    assert len(issuer.asked) == asked


async def test_removed_key_is_rejected_after_the_next_fetch() -> None:
    issuer, clock = Issuer(), TestClock(datetime.now(UTC))
    check = checker(issuer, clock, jwks_uri=f"{ISSUER}/keys")
    token = issuer.token()
    await check.token(token, None)
    issuer.keys = [RSAKey.generate_key(2048, {"kid": "two"})]
    assert (await check.token(token, None)).user == "alice"
    clock.advance(FRESH_S + 1)
    with pytest.raises(Refused, match="key id"):
        await check.token(token, None)


async def test_discovery_document_with_wrong_issuer_or_http_keys_is_rejected() -> None:
    class Liar(Issuer):
        def document(self, path: str) -> dict[str, Any]:
            return super().document(path) | {"issuer": "https://other.example"}

    class Careless(Issuer):
        def document(self, path: str) -> dict[str, Any]:
            return super().document(path) | {"jwks_uri": "http://issuer.example/keys"}

    for issuer in (Liar(), Careless()):
        with pytest.raises(Unanswered):
            await checker(issuer).token(issuer.token(), None)
        assert len(issuer.asked) == 1


def test_key_set_keeps_only_strong_public_signature_keys() -> None:
    public = KEY.as_dict(private=False)
    # A modulus of 1,024 bits is too short.
    short = public | {"kid": "short", "n": base64url(b"\xc5" * 128)}
    secret = {"kty": "oct", "kid": "one", "k": base64url(b"s" * 32)}
    broken = [None, {"kty": "RSA"}, {"kty": "XX"}, public | {"use": "enc"}, {"kty": "RSA", "n": 7}]
    assert [key.kid for key in public_keys({"keys": [secret, short, *broken, public]})] == ["one"]
    assert public_keys({"keys": "none"}) == [] == public_keys({})
    assert len(public_keys({"keys": [public] * 500})) == 64
