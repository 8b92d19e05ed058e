"""Authentication services are ready when who they ask answers."""

from collections.abc import AsyncIterator

import pytest

from controlled import Controlled, controlled
from doubles import document
from enmasse.control.prober import ASK_AGAIN_S, ASK_S, Prober
from enmasse.resources import AuthenticationService, Key
from enmasse.resources.conditions import READY

NAMESPACE = "enmasse-infra"


class Elsewhere:
    """Servers that answer or do not."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.asked: list[str] = []

    async def problem(self, service: AuthenticationService) -> str | None:
        name = service.metadata.name
        self.asked.append(name)
        return f"{name} is silent" if name in self.silent else None


@pytest.fixture
async def platform() -> AsyncIterator[Controlled]:
    async with controlled() as platform:
        platform.manager.note_answers({})
        yield platform


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
def prober(platform: Controlled, elsewhere: Elsewhere) -> Prober:
    return Prober(platform.store, platform.manager, elsewhere.problem, platform.clock)


async def declare(platform: Controlled, port: int = 5671) -> None:
    external = {"type": "external", "external": {"host": "sso.example.com", "port": port}}
    made = [
        document("AuthenticationService", name, spec) | {"apiVersion": "admin.enmasse.io/v1beta1"}
        for name, spec in (("sso", external), ("own", {"type": "standard"}))
    ]
    for one in made:
        one["metadata"]["namespace"] = NAMESPACE
    await platform.apply(*made)


async def ready(platform: Controlled, name: str = "sso") -> tuple[str, str]:
    # What is noted takes effect with the next pass, which any change brings on.
    tick = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tick"}}
    await platform.apply(tick | {"data": {"at": str(platform.store.version)}})
    found = platform.condition_of("AuthenticationService", name, READY, NAMESPACE)
    return found.status, found.reason


async def test_it_is_ready_once_it_has_answered(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    await declare(platform)
    assert await ready(platform) == ("False", "NotAsked")
    assert await ready(platform, "own") == ("True", "Served")
    await prober.ask()
    assert await ready(platform) == ("True", "Served")
    assert elsewhere.asked == ["sso"]


async def test_one_that_falls_silent_is_ready_no_more_until_it_answers(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    await declare(platform)
    await prober.ask()
    elsewhere.silent.add("sso")
    await prober.ask()
    assert elsewhere.asked == ["sso"], "one that answers is asked now and then"
    platform.clock.advance(ASK_S)
    await prober.ask()
    assert await ready(platform) == ("False", "NotAnswering")
    found = platform.get("AuthenticationService", "sso", NAMESPACE)
    assert found.status.phase == "Failed"
    assert "asked again: sso is silent" in found.status.messages[0]
    elsewhere.silent.clear()
    platform.clock.advance(ASK_AGAIN_S)
    await prober.ask()
    assert await ready(platform) == ("True", "Served")


async def test_another_server_is_asked_anew(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    await declare(platform)
    await prober.ask()
    await declare(platform, port=5672)
    assert await ready(platform) == ("False", "NotAsked")
    await prober.ask()
    assert await ready(platform) == ("True", "Served")
    await platform.admission.delete(Key("AuthenticationService", NAMESPACE, "sso"))
    await prober.ask()
    await platform.settle()
    assert elsewhere.asked == ["sso", "sso"]


async def test_who_keeps_realms_is_asked_at_once_when_spaces_come_and_go(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    keycloak = {"url": "https://sso.example.com", "credentialsSecret": {"name": "admin"}}
    for name, settings in (("kc", keycloak), ("plain", {"url": keycloak["url"]})):
        spec = {"type": "keycloak", "keycloak": settings}
        one = document("AuthenticationService", name, spec)
        one["metadata"]["namespace"] = NAMESPACE
        await platform.apply(one | {"apiVersion": "admin.enmasse.io/v1beta1"})
    await prober.ask()
    assert sorted(elsewhere.asked) == ["kc", "plain"]
    await platform.apply(document("AddressSpace", "shop", {"type": "standard"}))
    await prober.ask()
    await prober.ask()
    assert elsewhere.asked[2:] == ["kc"]
    chosen = {"type": "standard", "authenticationService": {"name": "kc"}}
    await platform.apply(document("AddressSpace", "shop", chosen))
    await prober.ask()
    assert elsewhere.asked[2:] == ["kc", "kc"], "who names another service waits for its realm"
    await platform.admission.delete(Key("AddressSpace", "default", "shop"))
    await platform.settle()
    await prober.ask()
    assert elsewhere.asked[2:] == ["kc", "kc", "kc"]


async def test_a_user_of_a_space_that_asks_nobody_is_not_ready(platform: Controlled) -> None:
    opened = {"type": "standard", "authenticationService": {"type": "none"}}
    closed = {"type": "standard", "authenticationService": {"type": "standard"}}
    user = document("MessagingUser", "shop.alice", {
        "username": "alice",
        "authentication": {"type": "federated"},
        "authorization": [],
    })  # fmt: skip
    await platform.apply(document("AddressSpace", "shop", opened), user)
    condition = platform.condition_of("MessagingUser", "shop.alice", READY)
    assert (condition.status, condition.reason) == ("False", "UsersNotAsked")
    assert platform.engine.plan.spaces[0].users == ()
    await platform.apply(document("AddressSpace", "shop", closed))
    assert platform.get("MessagingUser", "shop.alice").status.is_ready
    assert platform.engine.plan.spaces[0].users[0].name == "alice"
