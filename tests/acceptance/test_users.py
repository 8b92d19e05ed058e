"""Users, rights and authentication services, T-AU-1 to T-AU-6 of docs/acceptance.md."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection, LinkDetached

from authentication_server import authenticator
from platform_process import Platform, Start, running
from proton_client import PASSWORD, TIMEOUT_S, address, connected, document, stored, user

pytestmark = pytest.mark.timeout(180)

UNAUTHORIZED = "amqp:unauthorized-access"
WAIT_S = 30.0
GIVEN = "namespaces/default"
USERS = f"/apis/user.enmasse.io/v1beta1/{GIVEN}/messagingusers"
SPACES = f"/apis/enmasse.io/v1beta1/{GIVEN}/addressspaces"
ADDRESSES = f"/apis/enmasse.io/v1beta1/{GIVEN}/addresses"
SERVICES = "/apis/admin.enmasse.io/v1beta1/namespaces/enmasse-infra/authenticationservices"
MERGE = {"content-type": "application/merge-patch+json"}


class Api:
    """The HTTP API of a platform."""

    def __init__(self, platform: Platform, http: httpx2.Client) -> None:
        """Use a client that its creator closes."""
        token = (platform.data / "token").read_text().strip()
        http.base_url = platform.url("http")
        http.headers["authorization"] = f"Bearer {token}"
        http.timeout = TIMEOUT_S
        self.http = http

    def ready(self, path: str) -> None:
        """Wait until the node serves a resource as it is declared now."""
        until(lambda: self._is_ready(self.http.get(path).json()), f"{path} is not ready")

    def _is_ready(self, resource: dict[str, Any]) -> bool:
        status = resource.get("status", {})
        current = status.get("observedGeneration") == resource["metadata"]["generation"]
        return bool(current and status.get("phase") == "Active")

    def change(self, path: str, **spec: Any) -> None:
        """Change a resource, and wait until the change is in force."""
        answer = self.http.patch(path, content=json.dumps({"spec": spec}), headers=MERGE)
        assert answer.status_code == 200, answer.text
        self.ready(path)

    def make(self, folder: str, kind: str, name: str, spec: dict[str, Any]) -> httpx2.Response:
        resource = {
            "apiVersion": folder.removeprefix("/apis/").partition("/namespaces/")[0],
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        return self.http.post(folder, json=resource)


def until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, otherwise


def encoded(password: str) -> str:
    return base64.b64encode(password.encode()).decode()


def a_user(name: str = "alice", password: str = PASSWORD, *rights: Any) -> dict[str, Any]:
    return {
        "username": name,
        "authentication": {"type": "password", "password": encoded(password)},
        "authorization": [
            {"addresses": list(addresses), "operations": list(operations)}
            for addresses, operations in rights
        ],
    }


def login(name: str = "alice", password: str = PASSWORD) -> dict[str, Any]:
    return {"user": name, "password": password, "allowed_mechs": "PLAIN"}


def allowed(platform: Platform, name: str, **who: Any) -> tuple[bool, bool]:
    """Whether a user may send to an address, and receive from it."""
    answers = []
    for attach in ("create_sender", "create_receiver"):
        with connected(platform, **who) as connection:
            try:
                getattr(connection, attach)(name)
                answers.append(True)
            except LinkDetached as refused:
                assert refused.condition == UNAUTHORIZED
                answers.append(False)
    return answers[0], answers[1]


def comes_in(platform: Platform, **who: Any) -> bool:
    try:
        with connected(platform, **who):
            return True
    except ConnectionException:
        return False


ADDRESSED = (
    address("orders"),
    address("other"),
    address("direct", "anycast"),
    address("news", "topic"),
    address("all", "multicast"),
)


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform whose space has a user without rights, so that it is closed."""
    folder = tmp_path_factory.mktemp("documents")
    return start_platform("-f", document(folder, *ADDRESSED, user("keeper")))


@pytest.fixture
def api(platform: Platform) -> Iterator[Api]:
    with httpx2.Client() as http:
        yield Api(platform, http)
        http.delete(f"{USERS}/default.alice")


@pytest.fixture
def make_alice(api: Api) -> Callable[..., None]:
    def make(*rights: Any) -> None:
        answer = api.make(
            USERS, "MessagingUser", "default.alice", a_user("alice", PASSWORD, *rights)
        )
        assert answer.status_code == 201, answer.text
        api.ready(f"{USERS}/default.alice")

    return make


@pytest.mark.parametrize(
    ("operations", "may"),
    [(["send"], (True, False)), (["recv"], (False, True)), (["view", "manage"], (False, False))],
)
def test_T_AU_1_user_may_only_use_granted_operations_and_addresses(
    platform: Platform,
    make_alice: Callable[..., None],
    operations: list[str],
    may: tuple[bool, bool],
) -> None:
    make_alice((["orders", "direct", "news"], operations))
    for name in ("orders", "direct", "news"):
        assert allowed(platform, name, **login()) == may
    for name in ("other", "all", "not-there"):
        assert allowed(platform, name, **login()) == (False, False)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*", ["orders", "direct", "news", "all", "news/a/b"], []),
        ("or*", ["orders"], ["other", "direct", "news"]),
        ("news/*", ["news/a"], ["news/a/b", "all", "orders"]),
        ("news/#", ["news", "news/a", "news/a/b"], ["all"]),
        ("+", ["orders", "direct", "all"], ["news/a"]),
        ("#", ["orders", "news/a/b", "all"], []),
    ],
)
def test_T_AU_2_rights_match_address_patterns(
    platform: Platform,
    make_alice: Callable[..., None],
    pattern: str,
    yes: list[str],
    no: list[str],
) -> None:
    make_alice(([pattern], ["send", "recv"]))
    for name in yes:
        assert allowed(platform, name, **login()) == (True, True), name
    for name in no:
        assert allowed(platform, name, **login()) == (False, False), name


def ended(connection: BlockingConnection) -> Any:
    """Wait until the node has detached a link; return the condition."""
    with pytest.raises(LinkDetached) as detached:
        connection.wait(lambda: False, timeout=WAIT_S)
    return detached.value.condition


def test_T_AU_3_revoked_right_detaches_its_links(
    platform: Platform, api: Api, make_alice: Callable[..., None]
) -> None:
    make_alice((["orders", "other"], ["send", "recv"]))
    with connected(platform, **login()) as connection:
        kept = connection.create_sender("other")
        sender = connection.create_sender("orders")
        for number in range(5):
            sender.send(Message(body=number, durable=True))
        receiver = connection.create_receiver("orders", credit=2)
        held = receiver.receive(timeout=TIMEOUT_S).body
        api.change(
            f"{USERS}/default.alice",
            authorization=[{"addresses": ["other"], "operations": ["send", "recv"]}],
        )
        assert {ended(connection), ended(connection)} == {UNAUTHORIZED}
        kept.send(Message(body="still here"))
    assert allowed(platform, "orders", **login()) == (False, False)
    api.change(
        f"{USERS}/default.alice",
        authorization=[{"addresses": ["#"], "operations": ["recv"]}],
    )
    assert stored(platform, "orders") == 5, "the unsettled delivery must be released"
    with connected(platform, **login()) as connection:
        receiver = connection.create_receiver("orders", credit=5)
        bodies = []
        for _ in range(5):
            bodies.append(receiver.receive(timeout=TIMEOUT_S).body)
            receiver.accept()
        assert sorted(bodies) == [0, 1, 2, 3, 4] and held in bodies
        receiver = connection.create_receiver("other", credit=1)
        assert receiver.receive(timeout=TIMEOUT_S).body == "still here"
        receiver.accept()


@contextmanager
def cut_off(platform: Platform, **who: Any) -> Iterator[None]:
    """A connection that the node closes as unauthorized within the block."""
    with connected(platform, **who) as connection:
        connection.create_receiver("orders")
        yield
        with pytest.raises(ConnectionException, match=UNAUTHORIZED):
            connection.wait(lambda: False, timeout=WAIT_S)


def test_T_AU_3_deleted_user_or_changed_password_closes_connections(
    platform: Platform, api: Api, make_alice: Callable[..., None]
) -> None:
    make_alice((["orders"], ["recv"]))
    with cut_off(platform, **login()):
        changed = {"type": "password", "password": encoded("looking-glass")}
        api.change(f"{USERS}/default.alice", authentication=changed)
    assert not comes_in(platform, **login())
    assert comes_in(platform, **login(password="looking-glass"))
    with cut_off(platform, **login(password="looking-glass")):
        assert api.http.delete(f"{USERS}/default.alice").status_code == 200
    assert not comes_in(platform, **login(password="looking-glass"))


@pytest.mark.parametrize("name", ["a", "a.b@c:d-e_f", "9lives", "x" * 255])
def test_T_AU_4_valid_user_names_are_accepted(platform: Platform, api: Api, name: str) -> None:
    spec = a_user(name, PASSWORD, (["orders"], ["send"]))
    assert api.make(USERS, "MessagingUser", "default.alice", spec).status_code == 201
    api.ready(f"{USERS}/default.alice")
    # The last @ separates the space; one before it is part of the user's own name.
    assert comes_in(platform, **login(f"{name}@default"))


@pytest.mark.parametrize("name", ["Alice", "alice!", "-alice", "alice.", "_a", "", "al ice", "ä"])
def test_T_AU_4_invalid_user_names_are_refused(api: Api, name: str) -> None:
    answer = api.make(USERS, "MessagingUser", "default.alice", a_user(name))
    assert answer.status_code == 422 and "spec.username" in answer.text


def test_T_AU_4_user_is_created_changed_and_deleted(platform: Platform, api: Api) -> None:
    path = f"{USERS}/default.alice"
    wrong = a_user("alice", PASSWORD, (["orders"], ["browse"]))
    assert "operations" in api.make(USERS, "MessagingUser", "default.alice", wrong).text
    made = api.make(USERS, "MessagingUser", "default.alice", a_user())
    assert (
        made.status_code == 201 and PASSWORD not in made.text and encoded(PASSWORD) not in made.text
    )
    again = api.make(USERS, "MessagingUser", "default.alice", a_user())
    other = api.make(USERS, "MessagingUser", "default.twin", a_user())
    assert (again.status_code, other.status_code) == (409, 409)
    api.ready(path)
    assert comes_in(platform, **login()) and not comes_in(platform, **login(password="guess"))
    api.change(path, authorization=[{"addresses": ["orders"], "operations": ["send"]}])
    assert allowed(platform, "orders", **login()) == (True, False)
    federated = {"type": "federated", "password": None}
    api.change(path, authentication=federated)
    assert not comes_in(platform, **login()), "a federated user has no password"
    assert api.http.delete(path).status_code == 200
    until(lambda: not comes_in(platform, **login()), "the user has gone")


def guarded(service: str) -> dict[str, Any]:
    return {"type": "standard", "authenticationService": {"name": service}}


def test_T_AU_5_spaces_use_different_authentication_services(tmp_path: Path) -> None:
    with (
        authenticator() as known,
        running(tmp_path / "data") as up,
        httpx2.Client() as http,
    ):
        api = Api(up, http)
        known.passwords = {"carol": "external"}
        known.authz = {"orders": ["send"]}
        elsewhere = {"host": "127.0.0.1", "port": known.port}
        services = {
            "open": {"type": "none"},
            "closed": {"type": "standard"},
            "elsewhere": {"type": "external", "external": elsewhere},
        }
        for name, spec in services.items():
            assert api.make(SERVICES, "AuthenticationService", name, spec).status_code == 201
            space = f"at-{name}"
            made = api.make(SPACES, "AddressSpace", space, guarded(name))
            assert made.status_code == 201, made.text
            named = {"address": "orders", "type": "queue"}
            assert api.make(ADDRESSES, "Address", f"{space}.orders", named).status_code == 201
            api.ready(f"{ADDRESSES}/{space}.orders")
        alice = a_user("alice", PASSWORD, (["orders"], ["send"]))
        assert api.make(USERS, "MessagingUser", "at-closed.alice", alice).status_code == 201
        api.ready(f"{USERS}/at-closed.alice")

        def at(space: str, name: str, password: str) -> dict[str, Any]:
            return login(f"{name}@{space}", password)

        assert comes_in(up, **at("at-open", "whoever", "anything"))
        assert comes_in(up, **at("at-closed", "alice", PASSWORD))
        assert not comes_in(up, **at("at-closed", "whoever", "anything"))
        assert allowed(up, "orders", **at("at-elsewhere", "carol", "external")) == (True, False)
        assert not comes_in(up, **at("at-elsewhere", "carol", "guess"))
        assert not comes_in(up, **at("at-elsewhere", "alice", PASSWORD))
        assert {host for _, host in known.asked} == {"default-at-elsewhere"}

        # A used service cannot be deleted. A space that changes its service closes connections.
        assert api.http.delete(f"{SERVICES}/elsewhere").status_code == 409
        with connected(up, **at("at-elsewhere", "carol", "external")) as connection:
            api.change(f"{SPACES}/at-elsewhere", authenticationService={"name": "closed"})
            with pytest.raises(ConnectionException, match=UNAUTHORIZED):
                connection.wait(lambda: False, timeout=WAIT_S)
        assert not comes_in(up, **at("at-elsewhere", "carol", "external"))
        assert api.http.delete(f"{SERVICES}/elsewhere").status_code == 200


def test_T_AU_6_users_survive_a_restart(tmp_path: Path) -> None:
    declared = document(tmp_path, address("orders"), user("alice", "orders"))
    for arguments in (["-f", str(declared)], []):
        with running(tmp_path / "data", *arguments) as up:
            assert allowed(up, "orders", **login()) == (True, True)
            assert not comes_in(up, **login(password="guess"))
