"""The only way in."""

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
from enmasse.control.default_plans import platform_resources
from enmasse.control.policies import PLANS, NamespaceBounds
from enmasse.resources import (
    Address,
    AddressSpace,
    Declared,
    Key,
    MessagingUser,
    Namespace,
    Resource,
)
from enmasse.resources.address import TYPES
from enmasse.resources.core import NamespaceMetadata
from enmasse.store import Event, MemoryStore, Turn

SPACE = Key("AddressSpace", "default", "default")
ALICE = Key("MessagingUser", "default", "default.alice")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(TestClock())


@pytest.fixture
def admission(store: MemoryStore) -> Admission:
    return Admission(store, exposed=False)


async def test_documents_are_applied_in_the_order_they_need(admission: Admission) -> None:
    applied = await admission.apply([user(), address(), space()])
    assert [one.resource.kind for one in applied] == ["AddressSpace", "Address", "MessagingUser"]
    assert {one.change for one in applied} == {Change.CREATED}


async def test_documents_that_name_one_another_may_come_in_any_order(store: MemoryStore) -> None:
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


async def test_a_type_the_node_cannot_serve_is_refused_at_once(store: MemoryStore) -> None:
    admission = Admission(store, exposed=False, served=("anycast", "queue"))
    with pytest.raises(Invalid, match="'topic' cannot be served by this node"):
        await admission.apply([space(), topic()])
    assert store.list() == []


async def test_what_others_name_may_be_deleted(store: MemoryStore) -> None:
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


async def test_what_differs_is_changed(admission: Admission) -> None:
    await admission.apply([space(), user()])
    (_, alice) = await admission.apply([space(), user(password="brush")])
    assert alice.change is Change.CONFIGURED


async def test_one_bad_document_keeps_all_out(admission: Admission, store: MemoryStore) -> None:
    with pytest.raises(Invalid, match="address space 'north' not found"):
        await admission.apply([space(), address(), address("north.a")])
    assert store.list() == []


async def test_two_documents_of_one_address_keep_each_other_out(admission: Admission) -> None:
    with pytest.raises(Conflict, match="already belongs to"):
        await admission.apply([space(), address(), address("default.b", address="orders")])


async def test_a_password_never_reaches_the_store(admission: Admission, store: MemoryStore) -> None:
    await admission.apply([space(), user(password="correct horse")])
    stored = store.get(ALICE)
    assert isinstance(stored, MessagingUser)
    assert len(stored.spec.authentication.verifiers) == 2
    assert stored.spec.authentication.password is None
    assert "Y29ycmVjdCBob3JzZQ" not in stored.model_dump_json()


async def test_while_passwords_are_derived_others_have_their_turns(
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


async def test_create_demands_that_it_is_new(admission: Admission) -> None:
    await admission.create(space())
    await admission.create(address())
    with pytest.raises(Conflict) as refusal:
        await admission.create(address())
    assert refusal.value.code == Code.ALREADY_EXISTS
    with pytest.raises(Conflict) as refusal:
        await admission.create(address(type_="multicast"))
    assert refusal.value.code == Code.ALREADY_EXISTS


async def test_replace_demands_that_it_is_there_and_unchanged(admission: Admission) -> None:
    await admission.create(space())
    with pytest.raises(Missing, match="Address default\\.orders not found"):
        await admission.replace(address())
    made = await admission.create(address())
    changed = await admission.replace(made.with_metadata(labels={"a": "b"}))
    assert changed.metadata.labels == {"a": "b"}
    with pytest.raises(Conflict, match="read it again"):
        await admission.replace(made)


async def test_no_two_spaces_have_users_in_one_realm(admission: Admission) -> None:
    await admission.apply([space("b-c", namespace="a")])
    with pytest.raises(Conflict, match="'a-b-c' would be the realm of its users, which belongs to"):
        await admission.apply([space("c", namespace="a-b")])
    await admission.apply([space("b-d", namespace="a")])
    await admission.delete(Key("AddressSpace", "a", "b-c"))
    await admission.apply([space("c", namespace="a-b")])


async def test_with_a_space_goes_all_that_belongs_to_it(
    admission: Admission, store: MemoryStore
) -> None:
    others = [space("north"), address("north.a"), space(namespace="n"), address(namespace="n")]
    await admission.apply([space(), address(), user(), *others])
    gone = await admission.delete(SPACE)
    assert gone.kind == "AddressSpace"
    left = {resource.key for resource in store.list() if isinstance(resource, Declared)}
    assert left == {other.key for other in others}


async def test_what_is_not_there_cannot_be_deleted(admission: Admission) -> None:
    with pytest.raises(Missing):
        await admission.delete(SPACE)


async def test_of_two_requests_for_one_address_one_is_let_in(
    admission: Admission, store: MemoryStore
) -> None:
    await admission.create(space())
    results = await asyncio.gather(
        *(admission.create(address(f"default.a{n}", address="orders")) for n in range(5)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, EnMasseError) for result in results) == 4
    assert len(store.list("Address")) == 1


async def test_an_exposed_space_asks_for_users_unless_it_says_otherwise(
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


async def test_a_space_opened_past_admission_keeps_nothing_else_from_being_changed(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryStore, "is_guarded", False)
    await store.put([space("open", "none")])
    admission = Admission(store, exposed=True)
    await admission.check()
    await admission.apply([space(), user()])
    with pytest.raises(Invalid, match="address space other would admit anonymous clients"):
        await admission.create(space("other", "none"))


async def test_what_came_past_admission_is_completed_as_it_would_have_been(
    store: MemoryStore,
) -> None:
    admission = Admission(store, exposed=False)
    await admission.create_defaults(platform_resources())
    home, orders, plain = space(), address("default.orders", "queue"), user()
    assert await admission.completed(orders, None) is orders  # there is no space yet
    await store.put([home])
    assert await admission.completed(orders, None) is orders  # nor one whose plan is known
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


async def test_what_came_past_admission_gets_no_plan_that_its_namespace_may_not_choose(
    store: MemoryStore,
) -> None:
    admission = Admission(store, exposed=False, bounds=NamespaceBounds(plans=""))
    home, paid = space(), space("paid", plan="standard-small")
    await store.put([home])
    await admission.create_defaults(platform_resources())
    assert store.get(SPACE) == (await store.put([home]))[0], "a start gives it none either"
    assert await admission.completed(home, None) is home
    # It keeps what it has, and has one as soon as it may.
    had = cast(AddressSpace, await admission.completed(space("paid"), paid))
    assert had.spec.plan == "standard-small"
    allowed = NamespaceMetadata(name="default", annotations={PLANS: "standard-free"})
    await admission.apply([Namespace(metadata=allowed)])
    assert cast(AddressSpace, await admission.completed(home, None)).spec.plan == "standard-free"


async def test_a_store_with_an_open_space_is_checked_at_start(store: MemoryStore) -> None:
    await Admission(store, exposed=False).create(space(authentication="none"))
    with pytest.raises(Invalid, match="address space default would admit anonymous clients"):
        await Admission(store, exposed=True).check()


class CountingStore(MemoryStore):
    """Counts its writes, and takes as many resources at once as it is told."""

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
    """Create resources by requests that all wait while somebody else writes."""
    async with store.turn():
        waiting = [asyncio.ensure_future(admission.create(one)) for one in resources]
        # Tasks have their turns in order: each has asked before this one goes on.
        await asyncio.sleep(0)
        assert len(admission._waiting) == len(resources)
    return list(await asyncio.gather(*waiting, return_exceptions=True))


async def test_requests_that_wait_are_one_write() -> None:
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


async def test_each_of_the_requests_that_wait_has_its_own_answer() -> None:
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


async def test_one_that_the_store_refuses_takes_no_other_with_it() -> None:
    store = CountingStore(spoilt="default.a1")
    admission = Admission(store, exposed=False)
    await admission.create(space())
    wanted = [address(f"default.a{n}", address=f"a{n}") for n in range(4)]
    made = await at_once(admission, store, wanted)
    refused = [isinstance(one, Unavailable) for one in made]
    assert refused == [False, True, False, False]
    # what was refused left nothing behind that the next request would be judged by
    again = await admission.create(address("default.again", address="a1"))
    assert store.get(again.key) == again


async def test_a_request_that_is_given_up_takes_no_other_with_it() -> None:
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


async def test_the_room_of_a_quota_goes_to_the_first_that_ask_for_it() -> None:
    half = address_plan("half", "anycast", router=0.5)
    store = CountingStore()
    admission = Admission(store, exposed=False)
    await admission.apply([half, space_plan("one", [half], quota=(1, 1, 1)), space(plan="one")])
    wanted = [address(f"default.a{n}", address=f"a{n}") for n in range(4)]
    made = await at_once(admission, store, wanted)
    codes = [one.code if isinstance(one, EnMasseError) else None for one in made]
    assert codes == [None, None, Code.QUOTA_EXCEEDED, Code.QUOTA_EXCEEDED]


async def test_a_store_that_writes_one_by_one_gets_one_by_one(
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
