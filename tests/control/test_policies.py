"""What is refused when the request arrives: one table for each check."""

from collections.abc import Sequence

import pytest

from doubles import address, space, user
from enmasse.base.errors import Code, Conflict, EnMasseError, Invalid
from enmasse.control.policies import World, first_fault, space_exposed
from enmasse.resources import Resource


def world(resources: Sequence[Resource], exposed: bool = False) -> World:
    return World({resource.key: resource for resource in resources}, exposed)


def fault_of(
    resource: Resource, others: Sequence[Resource], before: Resource | None = None
) -> EnMasseError | None:
    return first_fault([(resource, before)], world([*others, resource]))


GOOD = {
    "a space": (space(), []),
    "an address in a space": (address(), [space()]),
    "the same address in another space": (
        address("north.a", address="orders"),
        [space("north"), space(), address()],
    ),
    "the same address in another namespace": (
        address(namespace="n"),
        [space(namespace="n"), space(), address()],
    ),
    "a user named like an address": (user("default.orders"), [space(), address()]),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_let_in(name: str) -> None:
    resource, others = GOOD[name]
    assert fault_of(resource, others) is None


BAD = {
    "an address without its space": (address(), [space("other")], Code.SPACE_ABSENT),
    "an address whose space is in another namespace": (
        address(namespace="n"),
        [space()],
        Code.SPACE_ABSENT,
    ),
    "a user without its space": (user(), [], Code.SPACE_ABSENT),
    "an address that another resource has": (
        address("default.again", address="orders"),
        [space(), address()],
        Code.ADDRESS_TAKEN,
    ),
    "a user name that another resource has": (
        user("default.alice").with_metadata(name="default.again"),
        [space(), user("default.alice")],
        Code.ADDRESS_TAKEN,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_and_which_field(name: str) -> None:
    resource, others, code = BAD[name]
    error = fault_of(resource, others)
    assert error is not None
    assert error.code == code
    assert isinstance(error, Conflict if code == Code.ADDRESS_TAKEN else Invalid)
    assert error.faults[0].field in ("metadata.name", "spec.address", "spec.username")
    assert str(resource.key) in error.message


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        (address(), address(type_="multicast"), "spec.type"),
        (address(), address(address="other"), "spec.address"),
    ],
)
def test_some_fields_cannot_change(before: Resource, after: Resource, field: str) -> None:
    error = fault_of(after, [space()], before)
    assert isinstance(error, Invalid)
    assert error.code == Code.FIELD_IMMUTABLE
    assert [fault.field for fault in error.faults] == [field]
    assert "delete the resource and create it anew" in error.message


@pytest.mark.parametrize(
    ("resources", "exposed", "refused"),
    [
        ([space()], True, True),
        ([space()], False, False),
        ([space(), user()], True, False),
        ([space(authentication="standard")], True, False),
        ([space(authentication="none"), user()], True, True),
        ([space("a", "standard"), space("b")], True, True),
        ([], True, False),
    ],
)
def test_an_open_space_is_not_for_other_machines(
    resources: list[Resource], exposed: bool, refused: bool
) -> None:
    error = space_exposed(world(resources, exposed))
    assert (error is not None) is refused
    if error:
        assert error.code == Code.SPACE_EXPOSED
        assert "--insecure" in error.message
