"""Readiness of authentication services: periodic probes of their servers."""

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


class ExternalServers:
    """External servers, some of which are silent or hang."""

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
def elsewhere() -> ExternalServers:
    return ExternalServers()


@pytest.fixture
def prober(platform: Controlled, elsewhere: ExternalServers) -> Prober:
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
    """Probe the services that are due, and wait for all probes."""
    async with asyncio.TaskGroup() as tasks:
        prober.ask(tasks)


async def ready(platform: Controlled, name: str = "sso") -> tuple[str, str]:
    # The result of a probe takes effect with the next pass, which any change triggers.
    tick = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tick"}}
    await platform.apply(tick | {"data": {"at": str(platform.store.version)}})
    found = platform.condition_of("AuthenticationService", name, READY, NAMESPACE)
    return found.status, found.reason


async def test_authentication_service_is_ready_after_its_first_probe(
    platform: Controlled, prober: Prober, elsewhere: ExternalServers
) -> None:
    await declare(platform)
    assert await ready(platform) == ("False", "NotAsked")
    assert await ready(platform, "own") == ("True", "Served")
    await ask(prober)
    assert await ready(platform) == ("True", "Served")
    assert elsewhere.asked == ["sso"]


async def test_silent_authentication_service_is_failed_until_it_answers_again(
    platform: Controlled, prober: Prober, elsewhere: ExternalServers
) -> None:
    await declare(platform)
    await ask(prober)
    elsewhere.silent.add("sso")
    await ask(prober)
    assert elsewhere.asked == ["sso"], "a service that answers is probed once per interval"
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


async def test_changed_authentication_service_is_probed_again(
    platform: Controlled, prober: Prober, elsewhere: ExternalServers
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


async def test_keycloak_with_realms_is_probed_when_address_spaces_change(
    platform: Controlled, prober: Prober, elsewhere: ExternalServers
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
    assert elsewhere.asked[2:] == ["kc", "kc"], "a space that changes its service needs a realm"
    await platform.admission.delete(Key("AddressSpace", "default", "shop"))
    await platform.settle()
    await ask(prober)
    assert elsewhere.asked[2:] == ["kc", "kc", "kc"]


async def test_hanging_probe_delays_no_other_service(
    platform: Controlled, prober: Prober, elsewhere: ExternalServers
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
        assert elsewhere.asked == ["hangs", "sso", "sso"], "one probe per service at a time"
        released.set()
    assert await ready(platform, "hangs") == ("True", "Served")


async def test_probe_of_a_changed_or_deleted_service_is_cancelled(
    platform: Controlled, prober: Prober, elsewhere: ExternalServers
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


async def test_space_created_during_a_keycloak_probe_causes_another_probe(
    platform: Controlled, prober: Prober, elsewhere: ExternalServers
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


async def test_prober_finds_services_after_the_store_history_overflows(
    platform: Controlled, prober: Prober, elsewhere: ExternalServers
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


async def test_user_of_an_anonymous_space_is_not_ready(platform: Controlled) -> None:
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
