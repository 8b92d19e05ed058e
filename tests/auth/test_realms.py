"""Keycloak realms follow address spaces; tests/keycloak uses a real Keycloak."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import pytest
from joserfc.jwk import RSAKey

from doubles import TestClock
from enmasse.auth.fetching import Answer
from enmasse.auth.grants import Refused, Unanswered
from enmasse.auth.logins import Logins, Question
from enmasse.auth.realms import CREATED, GROUPS, MARK, Administration, ListSpaces, Realms, Spaces
from enmasse.base.errors import Code, Unavailable
from enmasse.resources import AuthenticationService, Key, Resource, parse
from enmasse.store import MemoryStore
from enmasse.store.restored import RESTORED, UnknownPeriod, noted
from http_servers import Quiet, served_by
from token_issuer import Issuer

pytestmark = pytest.mark.anyio

PASSWORD = "not-to-be-shown"


class Keycloak:
    """A Keycloak as its administrators see it."""

    def __init__(self) -> None:
        self.url = ""
        self.realms: dict[str, dict[str, Any]] = {"master": {"id": "1", "realm": "master"}}
        self.status: int | None = None
        """The status of every response to an administrator; None: the regular one."""

        self.kept: set[str] = set()
        """Realms that it refuses to delete."""

        self.asked: list[tuple[str, str]] = []

    def log_in(self, form: dict[str, list[str]]) -> tuple[int, Any]:
        """Return a token for the right password."""
        if form["password"] != [PASSWORD] or form["client_id"] != ["admin-cli"]:
            return 401, {"error": "invalid_grant"}
        return 200, {"access_token": "token"}

    def administer(self, method: str, name: str, body: Any) -> tuple[int, Any]:
        """Return the response to a request for all realms, or for one of them."""
        self.asked.append((method, name))
        if self.status is not None:
            return self.status, {}
        if name == "":
            if method == "GET":
                brief = ("id", "realm")
                return 200, [{key: one[key] for key in brief} for one in self.realms.values()]
            self.realms[body["realm"]] = body
            return 201, None
        if name not in self.realms:
            return 404, {}
        if method == "DELETE":
            if name in self.kept:
                return 403, {}
            del self.realms[name]
            return 204, None
        return 200, self.realms[name]

    def administration(self, password: str = PASSWORD) -> Administration:
        """Return its declared administration."""
        return Administration(self.url, "service", "admin", password, "enmasse", "hush")


@contextmanager
def serving() -> Iterator[Keycloak]:
    keycloak = Keycloak()

    class Handler(Quiet):
        def do_GET(self) -> None:
            path, _, _ = self.path.partition("?")
            sent = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            if path == "/realms/master/protocol/openid-connect/token":
                status, document = keycloak.log_in(parse_qs(sent))
            elif self.headers["authorization"] == "Bearer token":
                name = path.removeprefix("/admin/realms").removeprefix("/")
                body = json.loads(sent) if sent else None
                status, document = keycloak.administer(self.command, name, body)
            else:
                status, document = 401, {}
            self.answer(status, b"" if document is None else json.dumps(document).encode())

        do_POST = do_DELETE = do_GET

    with served_by(Handler) as keycloak.url:
        yield keycloak


def found(wanted: Mapping[str, str], alive: Collection[str]) -> ListSpaces:
    """Return a function that finds these spaces."""

    async def look() -> Spaces:
        return Spaces(wanted, alive)

    return look


class BehindStore(MemoryStore):
    """A store to which other processes wrote resources that are not visible yet."""

    def __init__(self, clock: TestClock) -> None:
        super().__init__(clock)
        self.unseen: set[Key] = set()
        self.is_away = False

    def list(self, kind: str | None = None, namespace: str | None = None) -> Sequence[Resource]:
        return [one for one in super().list(kind, namespace) if one.key not in self.unseen]

    async def refresh(self) -> None:
        if self.is_away:
            raise Unavailable(Code.STORE_UNUSABLE, "the database is away")
        self.unseen.clear()


async def test_realm_is_created_and_deleted_with_its_address_space() -> None:
    with serving() as keycloak:
        realms, administration = Realms(), keycloak.administration()
        await realms.keep(administration, found({"u1": "north-shop"}, ["u1", "u2"]))
        made = keycloak.realms["north-shop"]
        assert (made["id"], made["enabled"], made["attributes"]) == ("u1", True, {MARK: "service"})
        assert [one["name"] for one in made["groups"]] == list(GROUPS)
        (client,) = made["clients"]
        assert (client["clientId"], client["secret"]) == ("enmasse", "hush")
        keycloak.asked.clear()
        await realms.keep(administration, found({"u1": "north-shop"}, ["u1", "u2"]))
        assert keycloak.asked == [("GET", "")], "foreign realms are not requested again"
        # The space exists and names another service now, so its realm keeps its users.
        await realms.keep(administration, found({}, ["u1"]))
        assert "north-shop" in keycloak.realms
        # A recreated space gets a new realm.
        await realms.keep(administration, found({"u3": "north-shop"}, ["u3"]))
        assert keycloak.realms["north-shop"]["id"] == "u3"
        await realms.keep(administration, found({}, []))
        assert keycloak.realms.keys() == {"master"}


async def test_realm_of_another_service_is_used_and_never_changed() -> None:
    with serving() as keycloak:
        theirs = {"id": "theirs", "realm": "north-shop", "attributes": {MARK: "another service"}}
        keycloak.realms["north-shop"] = theirs
        for spaces in ({"u1": "north-shop"}, {}):
            await Realms().keep(keycloak.administration(), found(spaces, spaces.keys()))
            assert keycloak.realms["north-shop"] is theirs


async def test_realm_of_a_space_lost_by_a_restore_is_kept_and_reused() -> None:
    with serving() as keycloak:
        clock = TestClock()
        store = MemoryStore(clock)
        realms = Realms()
        logins = Logins(store, clock, Issuer(f"{keycloak.url}/realms/master").fetch, realms)
        declared = await declare(store, keycloak)
        await store.put([administrator(declared)])
        assert await logins.problem(declared) is None
        shop = store.get(Key("AddressSpace", "north", "shop"))
        assert shop is not None
        created = shop.metadata.creation_timestamp or ""
        assert keycloak.realms["north-shop"]["attributes"][CREATED] == created
        # The state after a restore of a backup that is older than the space.
        times = noted((), UnknownPeriod(created, created))
        await store.delete([shop.key])
        await store.put([times])
        for attributes in ({CREATED: created}, {}):
            keycloak.realms["north-shop"]["attributes"] = {MARK: declared.metadata.uid} | attributes
            assert await logins.problem(declared) is None
            assert "north-shop" in keycloak.realms
        # A space created later is deleted with its realm, as usual.
        clock.advance(60)
        await store.put([shop.with_metadata(name="new", uid=None, resource_version=None)])
        assert await logins.problem(declared) is None
        assert "north-new" in keycloak.realms
        await store.delete([Key("AddressSpace", "north", "new")])
        assert await logins.problem(declared) is None
        assert keycloak.realms.keys() == {"master", "north-shop"}
        # The recreated space gets its former users.
        await store.put([shop.with_metadata(uid=None, resource_version=None)])
        assert await logins.problem(declared) is None
        again = store.get(shop.key)
        assert again is not None
        assert keycloak.realms["north-shop"]["id"] == shop.metadata.uid != again.metadata.uid
        assert realms.has(declared.metadata.uid or "", again.metadata.uid or "")
        await store.delete([shop.key])
        # An invalid record of the restore removes no realm; without the record it is removed.
        wrong = times.with_metadata(uid=None).model_copy(update={"data": {"times": "once"}})
        await store.put([wrong])
        said = await logins.problem(declared)
        assert (
            said is not None
            and "is not a pair of times" in said
            and "north-shop" in keycloak.realms
        )
        await store.delete([RESTORED])
        assert await logins.problem(declared) is None
        assert keycloak.realms.keys() == {"master"}


async def test_refused_administrator_is_reported_without_showing_secrets() -> None:
    with serving() as keycloak:
        administration = keycloak.administration("another-" + PASSWORD)
        with pytest.raises(Refused, match="admin.username and admin.password") as refused:
            await Realms().keep(administration, found({"u1": "north-shop"}, ["u1"]))
        assert PASSWORD not in str(refused.value) + repr(administration)
        assert "hush" not in repr(administration)
        keycloak.status = 403
        with pytest.raises(Refused, match="grant the administrator the role"):
            await Realms().keep(keycloak.administration(), found({"u1": "north-shop"}, ["u1"]))
        keycloak.status = 500
        with pytest.raises(Unanswered, match="answered GET with status 500"):
            await Realms().keep(keycloak.administration(), found({"u1": "north-shop"}, ["u1"]))
        assert "north-shop" not in keycloak.realms


async def declare(store: MemoryStore, keycloak: Keycloak) -> AuthenticationService:
    """Declare a service, a space that uses it, and a space that does not; return the service."""
    settings: dict[str, Any] = {"url": f"{keycloak.url}/", "credentialsSecret": {"name": "kc"}}
    admin = {"apiVersion": "admin.enmasse.io/v1beta1", "kind": "AuthenticationService"}
    spec = {"type": "keycloak", "keycloak": settings}
    service = parse(admin | {"metadata": {"name": "kc"}, "spec": spec})
    shop = {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": "AddressSpace",
        "metadata": {"name": "shop", "namespace": "north"},
        "spec": {"type": "standard", "authenticationService": {"name": "kc"}},
    }
    other = shop | {"metadata": {"name": "other"}, "spec": {"type": "standard"}}
    declared = (await store.put([service, parse(shop), parse(other)]))[0]
    assert isinstance(declared, AuthenticationService)
    return declared


def administrator(service: AuthenticationService) -> Resource:
    """Return the Secret that the service names."""
    return parse(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "kc", "namespace": service.metadata.namespace},
            "stringData": {"admin.username": "admin", "admin.password": PASSWORD},
        }
    )


async def test_declared_service_and_its_secret_decide_which_realms_are_created() -> None:
    with serving() as keycloak:
        clock = TestClock()
        store = MemoryStore(clock)
        logins = Logins(store, clock, Issuer(f"{keycloak.url}/realms/master").fetch)
        declared = await declare(store, keycloak)
        said = await logins.problem(declared)
        assert said is not None and "Secret 'kc' with" in said
        await store.put([administrator(declared)])
        assert await logins.problem(declared) is None
        assert keycloak.realms.keys() == {"master", "north-shop"}


async def test_leader_without_its_store_removes_no_realm() -> None:
    with serving() as keycloak:
        clock = TestClock()
        store = BehindStore(clock)
        logins = Logins(store, clock, Issuer(f"{keycloak.url}/realms/master").fetch)
        declared = await declare(store, keycloak)
        await store.put([administrator(declared)])
        assert await logins.problem(declared) is None
        shop = Key("AddressSpace", "north", "shop")
        # Another process created the space and its realm; this one cannot reach the store.
        store.unseen, store.is_away = {shop}, True
        said = await logins.problem(declared)
        assert said is not None and "the database is away" in said
        assert "north-shop" in keycloak.realms
        store.is_away = False
        assert await logins.problem(declared) is None
        assert "north-shop" in keycloak.realms
        await store.delete([shop])
        assert await logins.problem(declared) is None
        assert keycloak.realms.keys() == {"master"}


async def test_realm_pass_ends_at_its_deadline_and_the_next_one_completes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving() as keycloak:
        for number in range(3):
            name = f"theirs-{number}"
            keycloak.realms[name] = {"id": name, "realm": name}
        realms = Realms()
        with monkeypatch.context() as patching:
            patching.setattr("enmasse.auth.realms.KEEPING_TIMEOUT_S", -1.0)
            with pytest.raises(Unanswered, match="more realms"):
                await realms.keep(keycloak.administration(), found({"u1": "north-shop"}, ["u1"]))
        assert keycloak.asked == [("GET", "")], "no realm is requested after the deadline"
        await realms.keep(keycloak.administration(), found({"u1": "north-shop"}, ["u1"]))
        assert "north-shop" in keycloak.realms


async def test_realm_of_another_space_admits_no_user() -> None:
    with serving() as keycloak:
        realms, administration = Realms(), keycloak.administration()
        assert realms.has("service", "u1"), "nothing is known yet"
        keycloak.realms["theirs"] = {"id": "theirs", "realm": "theirs"}
        await realms.keep(administration, found({"u1": "a-b", "u2": "theirs"}, ["u1", "u2"]))
        assert realms.has("service", "u1") and realms.has("service", "u2")
        # Another space has the name now, and the former realm cannot be removed.
        keycloak.kept = {"a-b"}
        with pytest.raises(Refused):
            await realms.keep(administration, found({"u3": "a-b", "u2": "theirs"}, ["u2", "u3"]))
        assert not realms.has("service", "u3") and realms.has("service", "u2")
        keycloak.kept = set()
        await realms.keep(administration, found({"u3": "a-b"}, ["u3"]))
        assert realms.has("service", "u3")
        # The administrator of a realm may rename it to that of another space.
        keycloak.realms["c-d"] = keycloak.realms.pop("a-b") | {"realm": "c-d"}
        await realms.keep(administration, found({"u3": "a-b", "u4": "c-d"}, ["u3", "u4"]))
        assert not realms.has("service", "u4")


async def test_recreated_space_rejects_tokens_of_its_former_realm() -> None:
    with serving() as keycloak:
        clock = TestClock(datetime.now(UTC))
        store = MemoryStore(clock)
        master = Issuer(f"{keycloak.url}/realms/master")
        former = Issuer(f"{keycloak.url}/realms/north-shop")
        own = Issuer(former.url, RSAKey.generate_key(2048, {"kid": "two", "use": "sig"}))
        now = [former]

        async def fetch(url: str, **asked: Any) -> Answer:
            return await (now[0] if "north-shop" in url else master).fetch(url, **asked)

        logins = Logins(store, clock, fetch)
        declared = await declare(store, keycloak)
        await store.put([administrator(declared)])
        assert await logins.problem(declared) is None
        service = f"{declared.metadata.namespace}/kc/{declared.metadata.uid}"
        token = former.token(preferred_username="alice")
        shown = Question("shop.north", service, "OAUTHBEARER", None, token)
        assert (await logins.decide(shown)).user == "alice"
        shop = store.get(Key("AddressSpace", "north", "shop"))
        assert shop is not None
        await store.delete([shop.key])
        await store.put([shop.with_metadata(uid=None, resource_version=None)])
        with pytest.raises(Unanswered, match="realm north-shop does not belong to this space yet"):
            await logins.decide(shown)
        now[0] = own
        assert await logins.problem(declared) is None
        with pytest.raises(Refused, match="no key"):
            await logins.decide(shown)
