"""The only way in."""

import asyncio

import pytest

from doubles import TestClock, address, deadletter, queue, space, subscription, topic, user
from enmasse.base.errors import Code, Conflict, EnMasseError, Invalid, Missing
from enmasse.control import Admission, Change
from enmasse.resources import Declared, Key, MessagingUser
from enmasse.resources.address import TYPES
from enmasse.store import MemoryStore

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
    with pytest.raises(Invalid, match="there is no address space 'north'"):
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
    with pytest.raises(Missing, match=r"there is no Address default\.orders"):
        await admission.replace(address())
    made = await admission.create(address())
    changed = await admission.replace(made.with_metadata(labels={"a": "b"}))
    assert changed.metadata.labels == {"a": "b"}
    with pytest.raises(Conflict, match="read it again"):
        await admission.replace(made)


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


async def test_the_last_user_of_an_exposed_space_stays(store: MemoryStore) -> None:
    admission = Admission(store, exposed=True)
    with pytest.raises(Invalid, match="from other machines too"):
        await admission.create(space())
    await admission.apply([space(), user()])
    await admission.check()
    with pytest.raises(Invalid, match="from other machines too"):
        await admission.delete(ALICE)
    await admission.delete(SPACE)


async def test_a_store_with_an_open_space_is_checked_at_start(store: MemoryStore) -> None:
    await Admission(store, exposed=False).create(space())
    with pytest.raises(Invalid, match="address space default would let everybody in"):
        await Admission(store, exposed=True).check()
