"""Rights from groups and address maps, in the format of the original EnMasse."""

import pytest

from enmasse.auth.external import grant_of
from enmasse.auth.grants import Refused, rights_of_groups, rights_of_map
from enmasse.messaging.types import Array, Symbol
from enmasse.plan.model import Right
from enmasse.resources.messaging_user import PATTERNS_MAX, WILDCARDS_MAX


def listed(rights: tuple[Right, ...]) -> list[tuple[str, tuple[str, ...]]]:
    return [(right.pattern, right.operations) for right in rights]


def test_group_names_map_to_operations_and_decoded_addresses() -> None:
    groups = ["send_my_queue", "recv_a%2Fb", "consume_old*", "manage", "monitor", "/view", "send_#"]
    assert listed(rights_of_groups(groups)) == [
        ("my_queue", ("send",)),
        ("a/b", ("recv",)),
        ("old*", ("recv",)),
        ("#", ("manage",)),
        ("#", ("view",)),
        ("#", ("view",)),
        ("#", ("send",)),
    ]


@pytest.mark.parametrize(
    "group", ["", "send", "send_", "sender_a", "browse_a", "Send_a", "send_a*b", "admin", 5, None]
)
def test_unrecognized_groups_grant_nothing(group: object) -> None:
    assert rights_of_groups([group]) == ()


def test_authz_map_grants_known_operations_by_address() -> None:
    said = {"orders": ["send", "mend"], "news/#": ("recv", "view"), "x": ["delete"], "y": "send"}
    assert listed(rights_of_map(said)) == [("orders", ("send",)), ("news/#", ("recv", "view"))]


def test_rights_beyond_the_pattern_and_wildcard_bounds_are_dropped() -> None:
    groups = [f"send_{number}" for number in range(PATTERNS_MAX + 5)]
    assert len(rights_of_groups(groups)) == PATTERNS_MAX
    wild = [f"recv_%23%2F{number}" for number in range(WILDCARDS_MAX + 5)]
    rights = rights_of_groups([*wild, *groups])
    assert len(rights) == PATTERNS_MAX
    assert sum(right.pattern.startswith("#/") for right in rights) == WILDCARDS_MAX


def test_open_properties_of_an_external_service_become_a_grant() -> None:
    said = {
        Symbol("authenticated-identity"): {"sub": "u-1", "preferred_username": "alice"},
        Symbol("groups"): Array((Symbol("recv_news"),)),
        Symbol("address-authz"): {"orders": Array((Symbol("send"), Symbol("recv")))},
    }
    grant = grant_of(said)
    assert (grant.user, grant.expires) == ("alice", None)
    assert listed(grant.rights) == [("orders", ("send", "recv")), ("news", ("recv",))]
    assert grant_of({"authenticated-identity": {"sub": "bob"}}).rights == ()
    for nobody in ({}, {"authenticated-identity": "bob"}, {"authenticated-identity": {}}):
        with pytest.raises(Refused):
            grant_of(nobody)
