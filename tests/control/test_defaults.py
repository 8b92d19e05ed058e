"""Resources that exist by default."""

from collections.abc import Sequence

import pytest

from doubles import TestClock, address, space, user
from enmasse.control import Admission
from enmasse.control.defaults import default_resources, with_default_space
from enmasse.resources import Address, Resource
from enmasse.resources.address import SERVED_TYPES, TYPES
from enmasse.store import MemoryStore


def keys(resources: list[Resource]) -> list[str]:
    return [str(resource.key) for resource in resources]


def test_defaults_have_one_address_of_each_type_and_open_names_for_mqtt() -> None:
    addresses = [one for one in default_resources() if isinstance(one, Address)]
    assert [(one.spec.address, one.spec.type, one.spec.protocols) for one in addresses] == [
        *((type_, type_, None) for type_ in SERVED_TYPES),
        ("#", "topic", ("mqtt",)),
    ]


@pytest.mark.parametrize("types", [SERVED_TYPES, TYPES])
async def test_the_defaults_pass_the_admission(types: Sequence[str]) -> None:
    store = MemoryStore(TestClock())
    admission = Admission(store, exposed=False, served=types)
    await admission.apply(default_resources(types))
    assert len(store.list("Address")) == len(types) + 1


async def test_default_space_is_added_for_resources_that_need_it() -> None:
    store = MemoryStore(TestClock())
    assert keys(with_default_space([address()], store)) == [
        "AddressSpace default",
        "Address default.orders",
    ]
    assert keys(with_default_space([user()], store))[0] == "AddressSpace default"


async def test_default_space_is_not_added_when_declared_or_unneeded() -> None:
    store = MemoryStore(TestClock())
    closed = space(authentication="standard")
    assert with_default_space([address(), closed], store) == [address(), closed]
    assert with_default_space([address("north.a")], store) == [address("north.a")]
    assert with_default_space([address(namespace="n")], store) == [address(namespace="n")]
    await store.put([closed])
    assert with_default_space([address()], store) == [address()]
