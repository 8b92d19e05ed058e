"""Passwords of users that Secrets contain."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from doubles import TestClock, document
from enmasse.auth.passwords import verify
from enmasse.base.errors import Invalid
from enmasse.control.secret_passwords import AT_ONCE, SecretPasswords
from enmasse.plan.model import PlannedUser
from enmasse.resources import Event, Key, MessagingUser, Secret, parse
from enmasse.resources.conditions import READY, find
from enmasse.store import MemoryStore
from managed_store import Controlled, controlled


def can_log_in(platform: Controlled, password: str) -> bool:
    """Whether alice can log in with a password."""
    users = planned(platform)
    return any(one.name == "alice" and verify(password, one.verifiers) for one in users)


def planned(platform: Controlled) -> tuple[PlannedUser, ...]:
    return platform.engine.plan.spaces[0].users


def declared(platform: Controlled) -> MessagingUser:
    found = platform.get("MessagingUser", "default.alice")
    assert isinstance(found, MessagingUser)
    return found


@pytest.fixture
async def platform() -> AsyncIterator[Controlled]:
    async with controlled() as platform:
        shop = document("AddressSpace", "default", {"type": "standard"})
        await platform.apply(shop, alice({"name": "alice-pw"}))
        yield platform


def alice(secret: dict[str, Any], name: str = "alice", **more: Any) -> dict[str, Any]:
    authentication = {"type": "password", "passwordSecret": secret, **more}
    spec = {"username": name, "authentication": authentication, "authorization": []}
    return document("MessagingUser", f"default.{name}", spec)


def secret(password: str, key: str = "password", name: str = "alice-pw") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    head = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    return head | {"stringData": {key: password}}


async def test_user_without_its_password_secret_is_not_planned(platform: Controlled) -> None:
    ready = find(declared(platform).status.conditions, READY)
    assert ready is not None and (ready.status, ready.reason) == ("False", "PasswordMissing")
    assert (
        "Secret 'alice-pw' in namespace 'default' has no valid password in 'password'"
        in ready.message
    )
    assert planned(platform) == ()
    assert platform.engine.plan.spaces[0].authentication.type == "standard"


async def test_password_follows_changes_of_its_secret(platform: Controlled) -> None:
    await platform.apply(secret("pencil"))
    assert declared(platform).status.is_ready
    assert can_log_in(platform, "pencil")
    first = planned(platform)
    await platform.apply(secret("pencil") | {"immutable": False})
    assert planned(platform) == first
    await platform.apply(secret("crayon"))
    assert can_log_in(platform, "crayon") and not can_log_in(platform, "pencil")
    await platform.admission.delete(Key("Secret", "default", "alice-pw"))
    await platform.settle()
    assert planned(platform) == () and not declared(platform).status.is_ready


async def test_changed_secret_name_or_key_changes_the_password(platform: Controlled) -> None:
    await platform.apply(secret("pencil"), secret("crayon", key="word", name="other"))
    await platform.apply(alice({"name": "other", "key": "word"}))
    assert can_log_in(platform, "crayon")
    await platform.apply(alice({"name": "other", "key": "gone"}))
    assert planned(platform) == ()


async def test_user_may_switch_between_password_and_password_secret(platform: Controlled) -> None:
    await platform.apply(secret("pencil"))
    own = {"type": "password", "password": base64.b64encode(b"crayon").decode()}
    made = alice({})
    made["spec"]["authentication"] = own
    await platform.apply(made)
    assert can_log_in(platform, "crayon")
    await platform.apply(alice({"name": "alice-pw"}))
    assert can_log_in(platform, "pencil") and not can_log_in(platform, "crayon")


async def test_verifiers_of_secret_passwords_are_not_stored(platform: Controlled) -> None:
    await platform.apply(secret("pencil"))
    stored = [one for one in platform.store.list() if not isinstance(one, Secret)]
    told = repr([one.document() for one in [*stored, *platform.events.list()]])
    assert declared(platform).spec.authentication.verifiers == ()
    assert "pencil" not in told and base64.b64encode(b"pencil").decode() not in told
    assert "verifiers" not in told


@pytest.mark.parametrize("value", ["", "x" * 1025, "\u00ad", "a\u0007b"])
async def test_user_with_an_invalid_secret_password_is_not_planned(
    platform: Controlled, value: str
) -> None:
    await platform.apply(secret(value))
    assert planned(platform) == ()
    assert not declared(platform).status.is_ready


async def test_passwords_beyond_the_bound_of_a_pass_are_derived_by_the_next(
    platform: Controlled,
) -> None:
    users = [alice({"name": "alice-pw"}, name=f"u{number}") for number in range(AT_ONCE + 8)]
    await platform.apply(secret("pencil"), *users)
    await platform.settle()
    while len(planned(platform)) < AT_ONCE + 9:
        await platform.settle()
        await asyncio.sleep(0)
    assert all(one.verifiers for one in planned(platform))
    missed = {
        one.involved_object.name
        for one in platform.events.list("Event")
        if isinstance(one, Event) and one.reason == "PasswordMissing"
    }
    assert missed == {"default.alice"}, "a user that waits for its turn has no missing password"


async def test_passwords_are_derived_round_robin_by_namespace() -> None:
    passwords = SecretPasswords(MemoryStore(TestClock()))
    keys = [("many", f"u{number}") for number in range(3 * AT_ONCE)] + [("few", "alice")]
    for namespace, name in keys:
        made = alice({"name": "alice-pw"}, name=name)
        made["metadata"]["namespace"] = namespace
        user = parse(made)
        assert isinstance(user, MessagingUser)
        passwords.put(user.key, user)
    await passwords.derive([])
    waiting = passwords.waiting
    assert {one.namespace for one in waiting} == {"many"}
    assert len(waiting) == 3 * AT_ONCE + 1 - AT_ONCE
    for _ in range(3):
        await passwords.derive([])
    assert not passwords.waiting


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"type": "password", "password": "eA==", "passwordSecret": {"name": "s"}},
         "passwordSecret: cannot be combined with password"),
        ({"type": "federated", "passwordSecret": {"name": "s"}},
         "passwordSecret: is supported by type password only, not federated"),
        ({"type": "password", "passwordSecret": {"name": "S!"}}, "passwordSecret.name"),
        ({"type": "password", "passwordSecret": {"name": "s", "key": ""}}, "passwordSecret.key"),
        ({"type": "password", "passwordSecret": {}}, "passwordSecret.name"),
    ],
)  # fmt: skip
def test_invalid_password_secret_reference_is_rejected(spec: dict[str, Any], says: str) -> None:
    made = alice({})
    made["spec"]["authentication"] = spec
    with pytest.raises(Invalid, match=says):
        parse(made)
