"""A store with an admission and a manager that runs on demand: endpoints and status of spaces."""

import base64
from datetime import UTC, datetime
from typing import Any

from doubles import document
from enmasse.control import Manager
from enmasse.control.certificate_choice import NodeIdentity
from enmasse.control.endpoints import PlatformListeners
from enmasse.engines import Engine
from enmasse.resources import AddressSpace, Key, Secret
from enmasse.resources.conditions import find
from enmasse.resources.model import Condition
from enmasse.store import MemoryStore
from fake_engine import node_identity
from managed_store import Controlled

HOST = "mq.example.com"
PORTS = {"amqp": 5672, "amqps": 5671, "wss": 8443}
SHOP = Key("AddressSpace", "default", "shop")
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)


class Platform(Controlled):
    """A store with a manager that knows where the platform listens and what the node shows."""

    def __init__(
        self,
        engine: Engine | None = None,
        moment: datetime = NOVEMBER,
        identity: NodeIdentity | None = None,
    ) -> None:
        super().__init__(hosts=[HOST])
        self.clock.moment = moment
        self.identity = identity or node_identity(moment, HOST)
        self._serving = engine or self.engine
        self.start()

    def start(self) -> None:
        """Begin anew with the store as it is."""
        self.manager = Manager(self.store, self._serving, self.clock, MemoryStore(self.clock))
        self.manager.certificates.set_node(self.identity)
        self.manager.exports.set_listeners(PlatformListeners(HOST, PORTS))

    async def settle(self) -> None:
        """Have the manager work until it has nothing more to write."""
        version = -1
        while version != self.store.version:
            version = self.store.version
            await self.manager.catch_up()

    async def pass_days(self, days: float) -> None:
        """Have time pass, and done what is due."""
        self.clock.advance(days * 86_400)
        await self.settle()

    def space(self, key: Key = SHOP) -> AddressSpace:
        found = self.store.get(key)
        assert isinstance(found, AddressSpace)
        return found

    def condition(self, kind: str, key: Key = SHOP) -> Condition | None:
        return find(self.space(key).status.conditions, kind)

    def secret(self, name: str, namespace: str = "default") -> Secret:
        found = self.store.get(Key("Secret", namespace, name))
        assert isinstance(found, Secret)
        return found


def space(name: str = "shop", **spec: Any) -> dict[str, Any]:
    return document("AddressSpace", name, {"type": "standard"} | spec)


def endpoint(name: str = "messaging", **fields: Any) -> dict[str, Any]:
    return {"name": name, "service": "messaging"} | fields


def route(host: str | None = "shop.example.com") -> dict[str, Any]:
    return {"type": "route", "routeServicePort": "amqps"} | ({"routeHost": host} if host else {})


def text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def secret(name: str, chain: str, key: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": chain, "tls.key": key},
    }
