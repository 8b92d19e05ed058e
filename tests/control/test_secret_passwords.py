"""Passwords of users that are in Secrets."""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from doubles import FakeEngine, TestClock, document
from enmasse.auth.passwords import verify
from enmasse.base.errors import Invalid
from enmasse.control import Admission, Manager
from enmasse.control.secret_passwords import AT_ONCE
from enmasse.plan.model import PlannedUser
from enmasse.resources import Key, MessagingUser, Secret, parse
from enmasse.resources.conditions import READY, find
from enmasse.store import MemoryStore

ALICE = Key("MessagingUser", "default", "default.alice")


class Platform:
    """A store with a manager, and an engine that obeys."""

    def __init__(self) -> None:
        self.clock = TestClock(datetime(2026, 11, 1, tzinfo=UTC))
        self.store = MemoryStore(self.clock)
        self.engine = FakeEngine()
        self.admission = Admission(self.store, exposed=False)
        self.events = MemoryStore(self.clock)
        self.manager = Manager(self.store, self.engine, self.clock, self.events)

    async def apply(self, *documents: dict[str, Any]) -> None:
        await self.admission.apply([parse(one) for one in documents])
        await self.settle()

    async def settle(self) -> None:
        """Wait until the manager has nothing more to write."""
        version = -1
        while version != self.store.version:
            version = self.store.version
            await self.manager.reached(version)

    def alice(self) -> MessagingUser:
        found = self.store.get(ALICE)
        assert isinstance(found, MessagingUser)
        return found

    def planned(self) -> tuple[PlannedUser, ...]:
        return self.engine.plan.spaces[0].users

    def lets_in(self, password: str) -> bool:
        return any(
            one.name == "alice" and verify(password, one.verifiers) for one in self.planned()
        )


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    platform = Platform()
    running = asyncio.create_task(platform.manager.run())
    await platform.apply(
        document("AddressSpace", "default", {"type": "standard"}), alice({"name": "alice-pw"})
    )
    yield platform
    running.cancel()


def alice(secret: dict[str, Any], name: str = "alice", **more: Any) -> dict[str, Any]:
    authentication = {"type": "password", "passwordSecret": secret, **more}
    spec = {"username": name, "authentication": authentication, "authorization": []}
    return document("MessagingUser", f"default.{name}", spec)


def secret(password: str, key: str = "password", name: str = "alice-pw") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    head = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    return head | {"stringData": {key: password}}


async def test_without_its_secret_a_user_is_not_let_in(platform: Platform) -> None:
    ready = find(platform.alice().status.conditions, READY)
    assert ready is not None and (ready.status, ready.reason) == ("False", "PasswordMissing")
    assert "Secret 'alice-pw' in namespace 'default' has no value 'password'" in ready.message
    assert platform.planned() == ()
    assert platform.engine.plan.spaces[0].authentication.type == "standard"


async def test_the_password_follows_the_secret(platform: Platform) -> None:
    await platform.apply(secret("pencil"))
    assert platform.alice().status.is_ready
    assert platform.lets_in("pencil")
    first = platform.planned()
    await platform.apply(secret("pencil") | {"immutable": False})
    assert platform.planned() == first
    await platform.apply(secret("crayon"))
    assert platform.lets_in("crayon") and not platform.lets_in("pencil")
    await platform.admission.delete(Key("Secret", "default", "alice-pw"))
    await platform.settle()
    assert platform.planned() == () and not platform.alice().status.is_ready


async def test_another_secret_or_key_is_another_password(platform: Platform) -> None:
    await platform.apply(secret("pencil"), secret("crayon", key="word", name="other"))
    await platform.apply(alice({"name": "other", "key": "word"}))
    assert platform.lets_in("crayon")
    await platform.apply(alice({"name": "other", "key": "gone"}))
    assert platform.planned() == ()


async def test_a_user_may_turn_from_a_password_to_a_secret_and_back(platform: Platform) -> None:
    await platform.apply(secret("pencil"))
    own = {"type": "password", "password": base64.b64encode(b"crayon").decode()}
    declared = alice({})
    declared["spec"]["authentication"] = own
    await platform.apply(declared)
    assert platform.lets_in("crayon")
    await platform.apply(alice({"name": "alice-pw"}))
    assert platform.lets_in("pencil") and not platform.lets_in("crayon")


async def test_nothing_derived_is_stored(platform: Platform) -> None:
    await platform.apply(secret("pencil"))
    stored = [one for one in platform.store.list() if not isinstance(one, Secret)]
    told = repr([one.document() for one in [*stored, *platform.events.list()]])
    assert platform.alice().spec.authentication.verifiers == ()
    assert "pencil" not in told and base64.b64encode(b"pencil").decode() not in told
    assert "verifiers" not in told


@pytest.mark.parametrize("value", ["", "x" * 1025, "\u00ad", "a\u0007b"])
async def test_what_cannot_be_a_password_lets_nobody_in(platform: Platform, value: str) -> None:
    await platform.apply(secret(value))
    assert platform.planned() == ()
    assert not platform.alice().status.is_ready


async def test_more_than_a_pass_derives_come_with_the_next(platform: Platform) -> None:
    users = [alice({"name": "alice-pw"}, name=f"u{number}") for number in range(AT_ONCE + 8)]
    await platform.apply(secret("pencil"), *users)
    await platform.settle()
    await platform.manager.reached(platform.store.version + 0)
    while len(platform.planned()) < AT_ONCE + 9:
        await platform.settle()
        await asyncio.sleep(0)
    assert all(one.verifiers for one in platform.planned())


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"type": "password", "password": "eA==", "passwordSecret": {"name": "s"}},
         "passwordSecret: cannot stand beside password"),
        ({"type": "federated", "passwordSecret": {"name": "s"}},
         "passwordSecret: is for type password, not federated"),
        ({"type": "password", "passwordSecret": {"name": "S!"}}, "passwordSecret.name"),
        ({"type": "password", "passwordSecret": {"name": "s", "key": ""}}, "passwordSecret.key"),
        ({"type": "password", "passwordSecret": {}}, "passwordSecret.name"),
    ],
)  # fmt: skip
def test_what_is_no_place_of_a_password_is_refused(spec: dict[str, Any], says: str) -> None:
    declared = alice({})
    declared["spec"]["authentication"] = spec
    with pytest.raises(Invalid, match=says):
        parse(declared)
