"""Authentication services are ready when who they ask answers."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import pytest

from doubles import document
from enmasse.control.reconcilers.authentication_services import ASK_AGAIN_S, ASK_S, Prober
from enmasse.resources import AuthenticationService, Key, parse
from enmasse.resources.conditions import READY
from enmasse.store.history import CAPACITY
from managed_store import Controlled, controlled

NAMESPACE = "enmasse-infra"


class Elsewhere:
    """Servers that answer or do not."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.asked: list[str] = []
        self.hanging: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def problem(self, service: AuthenticationService) -> str | None:
        name = service.metadata.name
        self.asked.append(name)
        if name in self.hanging:
            await self.hanging[name].wait()
        return f"{name} is silent" if name in self.silent else None


@pytest.fixture
async def platform() -> AsyncIterator[Controlled]:
    async with controlled() as platform:
        platform.manager.services.note({})
        yield platform


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
def prober(platform: Controlled, elsewhere: Elsewhere) -> Prober:
    return Prober(platform.store, platform.manager.services, elsewhere.problem, platform.clock)


def external(name: str, port: int = 5671) -> dict[str, Any]:
    server = {"host": f"{name}.example.com", "port": port}
    return service(name, {"type": "external", "external": server})


def service(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    made = document("AuthenticationService", name, spec)
    made["metadata"]["namespace"] = NAMESPACE
    return made | {"apiVersion": "admin.enmasse.io/v1beta1"}


async def declare(platform: Controlled, port: int = 5671) -> None:
    await platform.apply(external("sso", port), service("own", {"type": "standard"}))


async def ask(prober: Prober) -> None:
    """Ask those whose turn it is, and wait for all of them."""
    async with asyncio.TaskGroup() as tasks:
        prober.ask(tasks)


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
    await ask(prober)
    assert await ready(platform) == ("True", "Served")
    assert elsewhere.asked == ["sso"]


async def test_one_that_falls_silent_is_ready_no_more_until_it_answers(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    await declare(platform)
    await ask(prober)
    elsewhere.silent.add("sso")
    await ask(prober)
    assert elsewhere.asked == ["sso"], "one that answers is asked now and then"
    platform.clock.advance(ASK_S)
    await ask(prober)
    assert await ready(platform) == ("False", "NotAnswering")
    found = platform.get("AuthenticationService", "sso", NAMESPACE)
    assert found.status.phase == "Failed"
    assert "is retried: sso is silent" in found.status.messages[0]
    elsewhere.silent.clear()
    platform.clock.advance(ASK_AGAIN_S)
    await ask(prober)
    assert await ready(platform) == ("True", "Served")


async def test_another_server_is_asked_anew(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    await declare(platform)
    await ask(prober)
    await declare(platform, port=5672)
    assert await ready(platform) == ("False", "NotAsked")
    await ask(prober)
    assert await ready(platform) == ("True", "Served")
    await platform.admission.delete(Key("AuthenticationService", NAMESPACE, "sso"))
    await ask(prober)
    await platform.settle()
    assert elsewhere.asked == ["sso", "sso"]


async def test_who_keeps_realms_is_asked_at_once_when_spaces_come_and_go(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    keycloak = {"url": "https://sso.example.com", "credentialsSecret": {"name": "admin"}}
    for name, settings in (("kc", keycloak), ("plain", {"url": keycloak["url"]})):
        await platform.apply(service(name, {"type": "keycloak", "keycloak": settings}))
    await ask(prober)
    assert sorted(elsewhere.asked) == ["kc", "plain"]
    await platform.apply(document("AddressSpace", "shop", {"type": "standard"}))
    await ask(prober)
    await ask(prober)
    assert elsewhere.asked[2:] == ["kc"]
    chosen = {"type": "standard", "authenticationService": {"name": "kc"}}
    await platform.apply(document("AddressSpace", "shop", chosen))
    await ask(prober)
    assert elsewhere.asked[2:] == ["kc", "kc"], "who names another service waits for its realm"
    await platform.admission.delete(Key("AddressSpace", "default", "shop"))
    await platform.settle()
    await ask(prober)
    assert elsewhere.asked[2:] == ["kc", "kc", "kc"]


async def test_one_that_hangs_holds_up_no_other(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    await platform.apply(external("hangs"), external("sso"))
    released = elsewhere.hanging["hangs"]
    async with asyncio.TaskGroup() as tasks:
        prober.ask(tasks)
        await asyncio.sleep(0)
        assert await ready(platform) == ("True", "Served")
        platform.clock.advance(ASK_S)
        elsewhere.silent.add("sso")
        prober.ask(tasks)
        await asyncio.sleep(0)
        assert await ready(platform) == ("False", "NotAnswering")
        assert await ready(platform, "hangs") == ("False", "NotAsked")
        assert elsewhere.asked == ["hangs", "sso", "sso"], "who hangs is asked once at a time"
        released.set()
    assert await ready(platform, "hangs") == ("True", "Served")


async def test_who_is_another_one_by_now_is_not_waited_for(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    await platform.apply(external("hangs"), external("goes"))
    for name in ("hangs", "goes"):
        elsewhere.hanging[name].clear()
    async with asyncio.TaskGroup() as tasks:
        prober.ask(tasks)
        await asyncio.sleep(0)
        elsewhere.hanging.clear()
        await platform.apply(external("hangs", port=5672))
        await platform.admission.delete(Key("AuthenticationService", NAMESPACE, "goes"))
        prober.ask(tasks)
        await asyncio.sleep(0)
        assert await ready(platform, "hangs") == ("True", "Served")
    assert elsewhere.asked == ["goes", "hangs", "hangs"]


async def test_realms_are_looked_at_again_for_spaces_that_come_while_a_keycloak_hangs(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    settings = {"url": "https://sso.example.com", "credentialsSecret": {"name": "admin"}}
    await platform.apply(service("kc", {"type": "keycloak", "keycloak": settings}))
    released = elsewhere.hanging["kc"]
    async with asyncio.TaskGroup() as tasks:
        prober.ask(tasks)
        await asyncio.sleep(0)
        await platform.apply(document("AddressSpace", "shop", {"type": "standard"}))
        prober.ask(tasks)
        assert elsewhere.asked == ["kc"]
        released.set()
    await ask(prober)
    assert elsewhere.asked == ["kc", "kc"]


async def test_services_are_found_again_after_more_changes_than_are_kept(
    platform: Controlled, prober: Prober, elsewhere: Elsewhere
) -> None:
    await declare(platform)
    await ask(prober)
    await platform.admission.delete(Key("AuthenticationService", NAMESPACE, "sso"))
    await platform.apply(external("other"))
    tick = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tick"}}
    for at in range(CAPACITY):
        await platform.store.put([parse(tick | {"data": {"at": str(at)}})])
    await ask(prober)
    assert elsewhere.asked == ["sso", "other"]
    platform.clock.advance(ASK_S)
    await ask(prober)
    assert elsewhere.asked == ["sso", "other", "other"]


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
