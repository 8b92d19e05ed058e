"""Admission: every change of a resource passes through it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest

from doubles import (
    TestClock,
    address,
    address_plan,
    deadletter,
    queue,
    space,
    space_plan,
    subscription,
    topic,
    user,
)
from enmasse.auth.passwords import without_password
from enmasse.base.errors import Code, Conflict, EnMasseError, Invalid, Missing, Unavailable
from enmasse.control import Admission, Change
from enmasse.control import admission as module
from enmasse.control.admission import TOGETHER_MAX
from enmasse.control.admission_checks import PLANS, NamespaceBounds
from enmasse.control.default_plans import platform_resources
from enmasse.resources import (
    Address,
    AddressSpace,
    Declared,
    Key,
    MessagingNode,
    MessagingUser,
    Namespace,
    Resource,
)
from enmasse.resources.address import TYPES
from enmasse.resources.core import NamespaceMetadata
from enmasse.resources.messaging_node import MessagingNodeSpec
from enmasse.resources.model import AdminMetadata
from enmasse.store import Event, MemoryStore, Turn
from enmasse.store.nodes import Identity

SPACE = Key("AddressSpace", "default", "default")
ALICE = Key("MessagingUser", "default", "default.alice")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(TestClock())


@pytest.fixture
def admission(store: MemoryStore) -> Admission:
    return Admission(store, exposed=False)


async def test_apply_creates_spaces_before_their_addresses_and_users(admission: Admission) -> None:
    applied = await admission.apply([user(), address(), space()])
    assert [one.resource.kind for one in applied] == ["AddressSpace", "Address", "MessagingUser"]
    assert {one.change for one in applied} == {Change.CREATED}


async def test_documents_with_references_are_applied_in_dependency_order(
    store: MemoryStore,
) -> None:
    admission = Admission(store, exposed=False, served=TYPES)
    resources = [subscription(), queue(deadletter="dead"), topic(), deadletter(), space()]
    applied = await admission.apply(resources)
    assert [one.resource.metadata.name for one in applied] == [
        "default",
        "default.dead",
        "default.orders",
        "default.news",
        "default.night",
    ]


async def test_address_type_that_the_node_cannot_serve_is_rejected(store: MemoryStore) -> None:
    admission = Admission(store, exposed=False, served=("anycast", "queue"))
    with pytest.raises(Invalid, match="'topic' cannot be served by this node"):
        await admission.apply([space(), topic()])
    assert store.list() == []


async def test_referenced_dead_letter_address_may_be_deleted(store: MemoryStore) -> None:
    admission = Admission(store, exposed=False, served=TYPES)
    await admission.apply([space(), deadletter(), queue(deadletter="dead")])
    await admission.delete(deadletter().key)
    renamed = queue(deadletter="dead").with_metadata(labels={"a": "b"})
    assert (await admission.replace(renamed)).metadata.labels == {"a": "b"}
    with pytest.raises(Invalid, match="'dead' that does not exist"):
        await admission.create(queue("default.more", deadletter="dead"))


async def test_documents_applied_again_change_nothing(
    admission: Admission, store: MemoryStore
) -> None:
    await admission.apply([space(), address(), user()])
    version = store.version
    applied = await admission.apply([space(), address(), user()])
    assert {one.change for one in applied} == {Change.UNCHANGED}
    assert store.version == version


async def test_apply_updates_a_changed_resource(admission: Admission) -> None:
    await admission.apply([space(), user()])
    (_, alice) = await admission.apply([space(), user(password="brush")])
    assert alice.change is Change.CONFIGURED


async def test_one_invalid_document_rejects_the_whole_request(
    admission: Admission, store: MemoryStore
) -> None:
    with pytest.raises(Invalid, match="address space 'north' not found"):
        await admission.apply([space(), address(), address("north.a")])
    assert store.list() == []


async def test_two_documents_with_one_address_name_conflict(admission: Admission) -> None:
    with pytest.raises(Conflict, match="already belongs to"):
        await admission.apply([space(), address(), address("default.b", address="orders")])


async def test_a_password_never_reaches_the_store(admission: Admission, store: MemoryStore) -> None:
    await admission.apply([space(), user(password="correct horse")])
    stored = store.get(ALICE)
    assert isinstance(stored, MessagingUser)
    assert len(stored.spec.authentication.verifiers) == 2
    assert stored.spec.authentication.password is None
    assert "Y29ycmVjdCBob3JzZQ" not in stored.model_dump_json()


async def test_passwords_are_derived_outside_the_turn_of_the_store(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    turns = 0
    turn = store.turn

    @contextlib.asynccontextmanager
    async def counted() -> AsyncIterator[Turn]:
        nonlocal turns
        async with turn() as inner:
            turns += 1
            yield inner
            turns -= 1

    def noted(one: MessagingUser, stored: MessagingUser | None) -> MessagingUser:
        held.append(turns > 0)
        return without_password(one, stored)

    monkeypatch.setattr(store, "turn", counted)
    monkeypatch.setattr(module, "without_password", noted)
    admission = Admission(store, exposed=False)
    users = [user(f"default.{name}") for name in ("alice", "bob")]
    await admission.apply([space(), *users])
    await admission.create(user("default.carol"))
    again = await admission.apply(users)
    assert [one.change for one in again] == [Change.UNCHANGED] * 2
    assert held == [False] * 5


async def test_admission_create_of_an_existing_resource_conflicts(admission: Admission) -> None:
    await admission.create(space())
    await admission.create(address())
    with pytest.raises(Conflict) as refusal:
        await admission.create(address())
    assert refusal.value.code == Code.ALREADY_EXISTS
    with pytest.raises(Conflict) as refusal:
        await admission.create(address(type_="multicast"))
    assert refusal.value.code == Code.ALREADY_EXISTS


async def test_replace_requires_an_existing_resource_of_the_same_version(
    admission: Admission,
) -> None:
    await admission.create(space())
    with pytest.raises(Missing, match="Address default\\.orders not found"):
        await admission.replace(address())
    made = await admission.create(address())
    changed = await admission.replace(made.with_metadata(labels={"a": "b"}))
    assert changed.metadata.labels == {"a": "b"}
    with pytest.raises(Conflict, match="read it again"):
        await admission.replace(made)


async def test_two_spaces_with_the_same_realm_name_conflict(admission: Admission) -> None:
    await admission.apply([space("b-c", namespace="a")])
    with pytest.raises(Conflict, match="'a-b-c' would be the realm of its users, which belongs to"):
        await admission.apply([space("c", namespace="a-b")])
    await admission.apply([space("b-d", namespace="a")])
    await admission.delete(Key("AddressSpace", "a", "b-c"))
    await admission.apply([space("c", namespace="a-b")])


async def test_deleting_a_space_deletes_its_addresses_and_users(
    admission: Admission, store: MemoryStore
) -> None:
    others = [space("north"), address("north.a"), space(namespace="n"), address(namespace="n")]
    await admission.apply([space(), address(), user(), *others])
    gone = await admission.delete(SPACE)
    assert gone.kind == "AddressSpace"
    left = {resource.key for resource in store.list() if isinstance(resource, Declared)}
    assert left == {other.key for other in others}


async def test_node_is_forgotten_with_its_resource_once_it_has_stopped(
    admission: Admission, store: MemoryStore
) -> None:
    node = MessagingNode(metadata=AdminMetadata(name="rack-1"))
    with pytest.raises(Invalid, match="--node-name rack-1"):
        await admission.create(node)
    identity = Identity("rack-1", "uid", 1, "mark")
    assert await store.nodes.claim(None, identity, "here")
    await store.put([node])
    cordoned = node.model_copy(update={"spec": MessagingNodeSpec(cordoned=True)})
    assert await admission.replace(cordoned)
    for key in (node.key, Key("Namespace", "", "enmasse-infra")):
        with pytest.raises(Conflict):
            await admission.delete(key)
    await store.nodes.stop(identity)
    await admission.delete(node.key, dry_run=True)
    assert len(await store.nodes.list()) == 1 and store.get(node.key) is not None
    await admission.delete(node.key)
    assert await store.nodes.list() == [] and store.get(node.key) is None


async def test_namespace_of_nodes_is_deleted_with_all_of_them_or_none(
    admission: Admission, store: MemoryStore
) -> None:
    infra = Key("Namespace", "", "enmasse-infra")
    identities = [Identity(name, f"uid-{name}", 1, "mark") for name in ("a", "b")]
    for identity in identities:
        assert await store.nodes.claim(None, identity, "here")
        await store.put([MessagingNode(metadata=AdminMetadata(name=identity.name))])
    await admission.ensure_namespaces()
    stopped, _ = identities
    await store.nodes.stop(stopped)
    with pytest.raises(Conflict, match="node 'b' is running"):
        await admission.delete(infra)
    assert len(await store.nodes.list()) == 2


async def test_delete_of_a_missing_resource_raises_missing(admission: Admission) -> None:
    with pytest.raises(Missing):
        await admission.delete(SPACE)


async def test_one_of_concurrent_requests_for_an_address_name_succeeds(
    admission: Admission, store: MemoryStore
) -> None:
    await admission.create(space())
    results = await asyncio.gather(
        *(admission.create(address(f"default.a{n}", address="orders")) for n in range(5)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, EnMasseError) for result in results) == 4
    assert len(store.list("Address")) == 1


async def test_exposed_platform_rejects_a_space_with_anonymous_access(
    store: MemoryStore,
) -> None:
    admission = Admission(store, exposed=True)
    await admission.create(space())
    await admission.create(user())
    await admission.check()
    await admission.delete(ALICE)
    with pytest.raises(Invalid, match="from other machines"):
        await admission.replace(space(authentication="none"))
    await admission.delete(SPACE)


async def test_stored_open_space_does_not_block_other_changes(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryStore, "is_guarded", False)
    await store.put([space("open", "none")])
    admission = Admission(store, exposed=True)
    await admission.check()
    await admission.apply([space(), user()])
    with pytest.raises(Invalid, match="address space other would admit anonymous clients"):
        await admission.create(space("other", "none"))


async def test_resources_written_past_admission_get_plans_and_verifiers(
    store: MemoryStore,
) -> None:
    admission = Admission(store, exposed=False)
    await admission.create_defaults(platform_resources())
    home, orders, plain = space(), address("default.orders", "queue"), user()
    assert await admission.completed(orders, None) is orders  # The space does not exist yet.
    await store.put([home])
    assert await admission.completed(orders, None) is orders  # The space has no plan yet.
    home = cast(AddressSpace, await admission.completed(home, None))
    assert home.spec.plan == "standard-unlimited"
    await store.put([home])
    assert cast(Address, await admission.completed(orders, None)).spec.plan == (
        "standard-small-queue"
    )
    had = queue("default.orders", plan="standard-large-queue")
    assert cast(Address, await admission.completed(orders, had)).spec.plan == (
        "standard-large-queue"
    )
    assert not plain.is_complete
    done = await admission.completed(plain, None)
    assert done.is_complete and await admission.completed(plain, done) == done
    with pytest.raises(Invalid, match="is required for a new user"):
        await admission.completed(user(password=None), None)


async def test_space_written_past_admission_gets_only_plans_of_its_namespace(
    store: MemoryStore,
) -> None:
    admission = Admission(store, exposed=False, bounds=NamespaceBounds(plans=""))
    home, paid = space(), space("paid", plan="standard-small")
    await store.put([home])
    await admission.create_defaults(platform_resources())
    assert store.get(SPACE) == (await store.put([home]))[0], "a start adds no plan either"
    assert await admission.completed(home, None) is home
    # A space keeps the plan that it has, and gets one once its namespace may use it.
    had = cast(AddressSpace, await admission.completed(space("paid"), paid))
    assert had.spec.plan == "standard-small"
    allowed = NamespaceMetadata(name="default", annotations={PLANS: "standard-free"})
    await admission.apply([Namespace(metadata=allowed)])
    assert cast(AddressSpace, await admission.completed(home, None)).spec.plan == "standard-free"


async def test_check_at_start_rejects_an_open_space_on_an_exposed_platform(
    store: MemoryStore,
) -> None:
    await Admission(store, exposed=False).create(space(authentication="none"))
    with pytest.raises(Invalid, match="address space default would admit anonymous clients"):
        await Admission(store, exposed=True).check()


class CountingStore(MemoryStore):
    """A store that counts its writes and bounds the resources of one write."""

    def __init__(self, takes: int = 1000, spoilt: str = "") -> None:
        super().__init__(TestClock())
        self.writes: list[int] = []
        self._takes = takes
        self._spoilt = spoilt

    async def _persist(self, events: Sequence[Event]) -> None:
        names = {event.resource.metadata.name for event in events}
        if len(events) > self._takes or self._spoilt in names:
            raise Unavailable(Code.DATA_UNUSABLE, "the disk refuses")
        self.writes.append(len(events))
        await asyncio.sleep(0)


async def at_once(
    admission: Admission, store: MemoryStore, resources: Sequence[Resource]
) -> list[Resource | BaseException]:
    """Create resources by requests that all wait while another writer has the turn."""
    async with store.turn():
        waiting = [asyncio.ensure_future(admission.create(one)) for one in resources]
        # Tasks run in order, so every request waits before this task continues.
        await asyncio.sleep(0)
        assert len(admission._waiting) == len(resources)
    return list(await asyncio.gather(*waiting, return_exceptions=True))


async def test_waiting_requests_are_grouped_into_one_write() -> None:
    store = CountingStore()
    admission = Admission(store, exposed=False)
    await admission.create(space())
    store.writes.clear()
    wanted = [address(f"default.a{n}", address=f"a{n}") for n in range(TOGETHER_MAX + 1)]
    made = await at_once(admission, store, wanted)
    assert [one.metadata.name for one in made if isinstance(one, Resource)] == [
        one.metadata.name for one in wanted
    ]
    assert store.writes == [TOGETHER_MAX, 1]
    assert made == [store.get(one.key) for one in wanted]


async def test_each_grouped_request_gets_its_own_result() -> None:
    store = CountingStore()
    admission = Admission(store, exposed=False)
    await admission.apply([space(), address("default.there", address="there")])
    wanted = [
        address("default.a", address="orders"),
        address("default.b", address="orders"),
        address("north.c"),
        address("default.there", address="there"),
        address("default.a", address="orders"),
        address("default.d", address="d"),
    ]
    made = await at_once(admission, store, wanted)
    codes = [one.code if isinstance(one, EnMasseError) else None for one in made]
    assert codes == [
        None,
        Code.ADDRESS_TAKEN,
        Code.SPACE_ABSENT,
        Code.ALREADY_EXISTS,
        Code.ALREADY_EXISTS,
        None,
    ]
    assert len(store.list("Address")) == 3


async def test_write_refused_by_the_store_fails_no_other_request() -> None:
    store = CountingStore(spoilt="default.a1")
    admission = Admission(store, exposed=False)
    await admission.create(space())
    wanted = [address(f"default.a{n}", address=f"a{n}") for n in range(4)]
    made = await at_once(admission, store, wanted)
    refused = [isinstance(one, Unavailable) for one in made]
    assert refused == [False, True, False, False]
    # The refused write left no state that affects the next request.
    again = await admission.create(address("default.again", address="a1"))
    assert store.get(again.key) == again


async def test_cancelled_request_fails_no_other_request() -> None:
    store = CountingStore()
    admission = Admission(store, exposed=False)
    await admission.create(space())
    async with store.turn():
        first, second = (
            asyncio.ensure_future(admission.create(address(f"default.a{n}", address=f"a{n}")))
            for n in range(2)
        )
        await asyncio.sleep(0)
        assert len(admission._waiting) == 2
        first.cancel()
    made = await second
    assert store.get(made.key) == made
    assert first.cancelled()
    assert not admission._waiting


async def test_quota_is_granted_in_the_order_of_requests() -> None:
    half = address_plan("half", "anycast", router=0.5)
    store = CountingStore()
    admission = Admission(store, exposed=False)
    await admission.apply([half, space_plan("one", [half], quota=(1, 1, 1)), space(plan="one")])
    wanted = [address(f"default.a{n}", address=f"a{n}") for n in range(4)]
    made = await at_once(admission, store, wanted)
    codes = [one.code if isinstance(one, EnMasseError) else None for one in made]
    assert codes == [None, None, Code.QUOTA_EXCEEDED, Code.QUOTA_EXCEEDED]


async def test_store_without_grouped_writes_gets_one_write_per_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CountingStore, "writes_together", False)
    store = CountingStore()
    admission = Admission(store, exposed=False)
    await admission.create(space())
    store.writes.clear()
    wanted = [address(f"default.a{n}", address=f"a{n}") for n in range(3)]
    await asyncio.gather(*(admission.create(one) for one in wanted))
    assert store.writes == [1, 1, 1]
