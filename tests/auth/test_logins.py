"""Logins that authentication services decide: routing, caching and secrecy."""

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from authentication_server import authenticator
from doubles import TestClock
from doubles import user as declared_user
from enmasse.auth.fetching import Answer
from enmasse.auth.grants import Unanswered
from enmasse.auth.logins import KEPT_MAX, KEPT_S, Logins
from enmasse.resources import AuthenticationService, Resource, parse
from enmasse.store import MemoryStore
from token_issuer import ISSUER, Issuer

pytestmark = pytest.mark.anyio

PEM = "-----BEGIN CERTIFICATE-----"


def service(name: str, type_: str, **settings: Any) -> Resource:
    return parse(
        {
            "apiVersion": "admin.enmasse.io/v1beta1",
            "kind": "AuthenticationService",
            "metadata": {"name": name},
            "spec": {"type": type_, **settings},
        }
    )


def space(service_name: str, **choice: Any) -> Resource:
    chosen = {"name": service_name, **choice}
    return parse(
        {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "AddressSpace",
            "metadata": {"name": "shop", "namespace": "north"},
            "spec": {"type": "standard", "authenticationService": chosen},
        }
    )


def secret(name: str, namespace: str, **texts: str) -> Resource:
    return parse(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "stringData": {key.replace("_", "."): text for key, text in texts.items()},
        }
    )


class Asked:
    """Logins at a platform with the declared resources."""

    def __init__(self, issuer: Issuer | None = None) -> None:
        self.clock = TestClock(datetime.now(UTC))
        self.store = MemoryStore(self.clock)
        self.issuer = issuer or Issuer()
        self.logins = Logins(self.store, self.clock, self.issuer.fetch)
        self._service = ""

    async def declare(self, one: Resource, *others: Resource) -> None:
        written = (await self.store.put([one, *others]))[0].metadata
        self._service = f"{written.namespace}/{written.name}/{written.uid}/{written.generation}"

    async def __call__(self, mechanism: str, secret: str, user: str | None = None) -> Any:
        login = {
            "id": 7,
            "space": "shop.north",
            "service": self._service,
            "mechanism": mechanism,
            "user": user,
            "secret": secret,
        }
        answer = await self.logins.answer(login)
        assert answer.pop("id") == 7
        assert secret not in str(answer)
        return answer


async def test_token_audience_is_the_space_unless_the_service_sets_one() -> None:
    asked = Asked()
    await asked.declare(service("idp", "standard", standard={"oidc": {"issuer": ISSUER}}))
    await asked.store.put([space("idp")])
    own = asked.issuer.token(aud="shop.north", groups=["send_a"])
    answer = await asked("OAUTHBEARER", own)
    assert (answer["user"], answer["rights"]) == (
        "alice",
        [{"pattern": "a", "operations": ["send"]}],
    )
    assert answer["expiresMs"] == asked.issuer.claims()["exp"] * 1000 or answer["expiresMs"] > 0
    assert "aud" in (await asked("XOAUTH2", asked.issuer.token(aud="shop.south")))["refused"]
    other = {"issuer": ISSUER, "audience": "all-of-us"}
    await asked.declare(service("idp", "standard", standard={"oidc": other}))
    token = asked.issuer.token(aud="all-of-us", groups=["view"])
    assert (await asked("OAUTHBEARER", token))["user"] == "alice"
    assert "refused" in await asked("OAUTHBEARER", own)


async def test_silent_issuer_or_missing_secret_is_unavailable_not_refused() -> None:
    asked = Asked()
    oidc: dict[str, Any] = {"issuer": ISSUER}
    await asked.declare(service("idp", "standard", standard={"oidc": oidc}), space("idp"))
    asked.issuer.silent = True
    token = asked.issuer.token(aud="shop.north")
    assert "does not answer" in (await asked("OAUTHBEARER", token))["unavailable"]
    oidc["caCertSecret"] = {"name": "ca"}
    await asked.declare(service("idp", "standard", standard={"oidc": oidc}))
    assert "Secret 'ca' with ca.crt not found" in (await asked("OAUTHBEARER", token))["unavailable"]


async def test_deleted_authentication_service_makes_logins_unavailable() -> None:
    asked = Asked()
    await asked.declare(service("idp", "standard", standard={"oidc": {"issuer": ISSUER}}))
    token = asked.issuer.token(aud="shop.north")
    assert "no longer exists" in (await asked("OAUTHBEARER", token))["unavailable"]
    await asked.store.put([space("idp")])
    asked._service = asked._service.replace("/idp/", "/other/")
    assert "no longer exists" in (await asked("OAUTHBEARER", token))["unavailable"]


class Realm(Issuer):
    """A Keycloak realm that issues tokens for passwords."""

    passwords = {"alice": "wonderland"}  # noqa: RUF012
    answered = 0
    groups: Sequence[str] = ("manage",)
    lifespan_s = 3600

    async def fetch(
        self, url: str, *, form: Mapping[str, str] | None = None, ca: str | None = None
    ) -> Answer:
        if form is None:
            return await super().fetch(url, ca=ca)
        assert url == f"{self.url}/protocol/openid-connect/token"
        self.answered += 1
        self.form = dict(form)
        if self.silent:
            raise Unanswered("no answer")
        if self.passwords.get(form["username"]) != form["password"]:
            return Answer(401, b'{"error": "invalid_grant", "error_description": "Invalid user"}')
        self.expires = int(time.time()) + self.lifespan_s
        token = self.token(
            preferred_username=form["username"],
            groups=self.groups,
            aud=None,
            exp=self.expires,
        )
        return Answer(200, b'{"access_token": "%s"}' % token.encode())


async def test_keycloak_checks_passwords_in_the_realm_of_the_space() -> None:
    realm = Realm("https://keycloak.example/realms/north-shop")
    asked = Asked(realm)
    settings = {"url": "https://keycloak.example/", "clientSecret": {"name": "client"}}
    client = secret("client", "enmasse-infra").model_copy(
        update={"data": {"client-secret": base64.b64encode(b"hush").decode()}}
    )
    await asked.declare(service("kc", "keycloak", keycloak=settings), space("kc"), client)
    answer = await asked("PLAIN", "wonderland", "alice")
    assert answer == {
        "user": "alice",
        "rights": [{"pattern": "#", "operations": ["manage"]}],
        "expiresMs": realm.expires * 1000,
        "renewable": True,
    }
    assert realm.form["client_secret"] == "hush" and realm.form["client_id"] == "enmasse"
    # A repeated password is served from the cache; any other one is checked again.
    await asked("PLAIN", "wonderland", "alice")
    assert realm.answered == 1
    assert "Invalid user" in (await asked("PLAIN", "guessing", "alice"))["refused"]
    assert "Invalid user" in (await asked("PLAIN", "guessing", "alice"))["refused"]
    assert realm.answered == 3
    asked.clock.advance(KEPT_S)
    realm.passwords = {}
    assert "refused" in await asked("PLAIN", "wonderland", "alice")


async def test_password_is_rechecked_before_its_grant_expires() -> None:
    realm = Realm("https://keycloak.example/realms/north-shop")
    realm.lifespan_s = 20
    asked = Asked(realm)
    settings = {"url": "https://keycloak.example"}
    await asked.declare(service("kc", "keycloak", keycloak=settings), space("kc"))
    for rights in ("send", "recv"):
        realm.groups = [f"{rights}_orders"]
        granted = await asked("PLAIN", "wonderland", "alice")
        assert granted["rights"] == [{"pattern": "orders", "operations": [rights]}]
        # The node rechecks at half of a short lifespan; the cached grant is not used then.
        asked.clock.advance(10)
    realm.passwords = {}
    assert "Invalid user" in (await asked("PLAIN", "wonderland", "alice"))["refused"]


async def test_external_grant_is_valid_for_its_recheck_seconds() -> None:
    with authenticator() as known:
        known.passwords = {"alice": "wonderland"}
        asked = Asked()
        place = {"host": "127.0.0.1", "port": known.port, "recheckSeconds": 40}
        await asked.declare(service("ext", "external", external=place), space("ext"))
        for operation in ("send", "recv"):
            known.authz = {"orders": [operation]}
            granted = await asked("PLAIN", "wonderland", "alice")
            assert granted["rights"] == [{"pattern": "orders", "operations": [operation]}]
            end_ms = int((asked.clock.now().timestamp() + 40) * 1000)
            assert (granted["expiresMs"], granted["renewable"]) == (end_ms, True)
            asked.clock.advance(20)
        known.passwords = {}
        assert "refused" in await asked("PLAIN", "wonderland", "alice")


async def test_cached_grants_are_bounded() -> None:
    realm = Realm("https://keycloak.example/realms/north-shop")
    asked = Asked(realm)
    settings = {"url": "https://keycloak.example"}
    await asked.declare(service("kc", "keycloak", keycloak=settings), space("kc"))
    realm.passwords = {f"user-{number}": "same-for-all" for number in range(KEPT_MAX + 1)}
    for user in realm.passwords:
        assert (await asked("PLAIN", "same-for-all", user))["user"] == user
    assert realm.answered == KEPT_MAX + 1
    await asked("PLAIN", "same-for-all", f"user-{KEPT_MAX}")
    assert realm.answered == KEPT_MAX + 1
    await asked("PLAIN", "same-for-all", "user-0")
    assert realm.answered == KEPT_MAX + 2


async def test_space_overrides_realm_and_host_of_an_external_service() -> None:
    with authenticator() as known:
        known.passwords = {"alice": "wonderland"}
        asked = Asked()
        place = {"host": "nowhere.invalid", "port": 1, "allowOverride": True}
        own = {"host": "127.0.0.1", "port": known.port, "realm": "mine"}
        await asked.declare(service("ext", "external", external=place))
        await asked.store.put([space("ext", overrides=own)])
        assert (await asked("PLAIN", "wonderland", "alice"))["user"] == "alice"
        assert known.asked == [("PLAIN", "mine")]
        # Secrets of a space are in its own namespace.
        await asked.store.put([secret("ca", "enmasse-infra", ca_crt=PEM)])
        given = own | {"caCertSecret": {"name": "ca"}}
        await asked.store.put([space("ext", overrides=given)])
        assert "not found in 'north'" in (await asked("PLAIN", "wrong", "bob"))["unavailable"]


async def problem(asked: Asked, name: str, type_: str, **settings: Any) -> str | None:
    one = service(name, type_, **settings)
    assert isinstance(one, AuthenticationService)
    return await asked.logins.problem(one)


async def test_issuer_has_no_problem_when_its_keys_are_available() -> None:
    issuer = Issuer()
    asked = Asked(issuer)
    oidc = {"oidc": {"issuer": ISSUER}}
    assert await problem(asked, "staff", "standard", standard=oidc) is None
    issuer.keys = []
    said = await problem(asked, "staff", "standard", standard=oidc)
    assert said is not None and "has no usable key" in said
    elsewhere = {"oidc": {"issuer": "https://other.example.com"}}
    assert await problem(asked, "staff", "standard", standard=elsewhere) is not None
    with_ca = {"oidc": {"issuer": ISSUER, "caCertSecret": {"name": "none"}}}
    said = await problem(asked, "staff", "standard", standard=with_ca)
    assert said is not None and "Secret 'none' with ca.crt not found" in said


async def test_external_service_has_no_problem_when_it_speaks_sasl() -> None:
    asked = Asked()
    with authenticator() as known:
        place = {"host": "127.0.0.1", "port": known.port}
        assert await problem(asked, "e", "external", external=place) is None
        assert known.asked == [], "the check logs in no user"
    said = await problem(asked, "e", "external", external=place)
    assert said is not None and "cannot be reached" in said


@pytest.mark.parametrize("host", ["..", "a" * 70 + ".com", "a\0b"])
async def test_invalid_host_is_reported_as_unresolvable(host: str) -> None:
    said = await problem(Asked(), "e", "external", external={"host": host, "port": 5671})
    assert said is not None and "cannot resolve or reach its host" in said


async def test_internal_error_of_a_service_check_is_reported() -> None:
    asked = Asked()
    asked.logins = Logins(asked.store, asked.clock, lambda *_, **__: 1 / 0)  # type: ignore[arg-type, return-value]
    said = await problem(asked, "staff", "standard", standard={"oidc": {"issuer": ISSUER}})
    assert said == "it cannot be queried: internal error, see the log"


async def test_server_of_another_protocol_is_reported_as_a_problem() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request")
        writer.close()

    asked = Asked()
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        place = {"host": "127.0.0.1", "port": server.sockets[0].getsockname()[1]}
        said = await problem(asked, "e", "external", external=place)
    assert said is not None and "does not speak SASL over AMQP" in said


async def test_valid_token_of_an_undeclared_user_is_refused() -> None:
    asked = Asked()
    await asked.declare(service("idp", "standard", standard={"oidc": {"issuer": ISSUER}}))
    await asked.store.put([space("idp")])
    answer = await asked("OAUTHBEARER", asked.issuer.token(aud="shop.north"))
    assert "not a MessagingUser of the space" in answer["refused"]
    elsewhere = declared_user("other.alice").with_metadata(namespace="north")
    await asked.store.put([elsewhere])
    assert "refused" in await asked("OAUTHBEARER", asked.issuer.token(aud="shop.north"))
    await asked.store.put([declared_user("shop.alice").with_metadata(namespace="north")])
    answer = await asked("OAUTHBEARER", asked.issuer.token(aud="shop.north"))
    assert (answer["user"], answer["rights"]) == ("alice", [])
