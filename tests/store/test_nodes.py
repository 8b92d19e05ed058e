"""Which process may be a node, and which node may be forgotten: decisions without a store."""

import json
import math

import pytest

from enmasse.base.errors import Code, Conflict
from enmasse.base.node_file import NodeRecord
from enmasse.store.nodes import (
    AddressProofs,
    Claim,
    Heartbeat,
    Identity,
    Registered,
    Role,
    check_forgettable,
    claim_of,
    has_free_other,
    heartbeat_of,
)

FILE = "DIR/node.json"


def node(
    name: str = "a",
    uid: str = "uid-a",
    start: int = 5,
    mark: str = "m5",
    silent_s: float | None = math.inf,
    role: Role = "standby",
) -> Registered:
    return Registered(Identity(name, uid, start, mark), "here", "1", silent_s, Heartbeat(role))


def record(
    name: str = "a",
    uid: str = "uid-a",
    start: int = 5,
    mark: str = "m5",
    next_mark: str | None = None,
) -> NodeRecord:
    return NodeRecord("store", name, uid, start, mark, next_mark)


def test_new_folder_gets_a_new_uid() -> None:
    assert claim_of(None, "a", [], FILE) == Claim("a", None, None, 1)
    other = node("b", "uid-b")
    assert claim_of(None, "a", [other], FILE) == Claim("a", None, None, 1)


def test_new_folder_takes_the_name_of_a_node_that_has_gone() -> None:
    known = node()
    assert claim_of(None, "a", [known], FILE) == Claim("a", None, known, 1)


def test_folder_of_a_forgotten_node_becomes_a_new_node() -> None:
    assert claim_of(record(), "a", [], FILE) == Claim("a", None, None, 1)


def test_folder_of_the_last_start_raises_the_start_number() -> None:
    known = node()
    assert claim_of(record(), "a", [known], FILE) == Claim("a", "uid-a", known, 6)


def test_start_that_reached_the_store_and_not_the_folder_is_recognised() -> None:
    known = node(start=6, mark="m6")
    found = claim_of(record(next_mark="m6"), "a", [known], FILE)
    assert found == Claim("a", "uid-a", known, 7)


def test_folder_that_never_completed_a_start_takes_over_a_name_again() -> None:
    known = node()
    interrupted = record(uid="uid-new", start=0, mark="", next_mark="m1")
    assert claim_of(interrupted, "a", [known], FILE) == Claim("a", None, known, 1)
    # Unless its start did reach the store.
    own = node(uid="uid-new", start=1, mark="m1")
    assert claim_of(interrupted, "a", [own], FILE) == Claim("a", "uid-new", own, 2)


def test_start_numbers_go_on_from_the_folder_after_the_store_was_restored() -> None:
    known = node(start=3, mark="m3")
    assert claim_of(record(start=5), "a", [known], FILE) == Claim("a", "uid-a", known, 6)


@pytest.mark.parametrize(
    ("known", "own", "name", "problem"),
    [
        (node(start=6, mark="m6"), record(), "a", "the folder was copied or restored"),
        (node(start=5, mark="other"), record(), "a", "the folder was copied or restored"),
        (node(uid="uid-b"), record(), "a", r"has another data folder \(uid uid-b\)"),
        (node(), record(), "c", "belongs to node 'a', and --node-name is 'c'"),
    ],
)
def test_folder_that_is_not_that_of_the_node_is_refused_with_the_remedy(
    known: Registered, own: NodeRecord, name: str, problem: str
) -> None:
    with pytest.raises(Conflict, match=problem) as refused:
        claim_of(own, name, [known], FILE)
    assert refused.value.code == Code.NODE_TAKEN
    assert "delete DIR/node.json" in refused.value.message


@pytest.mark.parametrize(
    ("silent_s", "is_cordoned", "leaves"),
    [
        (0.0, False, True),
        (14.9, False, True),
        (None, False, True),
        (15.0, False, False),
        (math.inf, False, False),
        (0.0, True, False),
    ],
)
def test_cordoned_node_leaves_the_lead_to_another_that_is_ready_and_free(
    silent_s: float | None, is_cordoned: bool, leaves: bool
) -> None:
    me = node()
    other = Registered(
        *(Identity("b", "uid-b", 1, "m"), "there", "1", silent_s),
        Heartbeat(is_cordoned=is_cordoned),
    )
    assert has_free_other("a", [me, other]) == leaves
    assert not has_free_other("a", [me]) and not has_free_other("a", [])


@pytest.mark.parametrize("silent_s", [0.0, 14.9, None])
def test_running_node_is_not_forgotten(silent_s: float | None) -> None:
    with pytest.raises(Conflict, match="stop its process first"):
        check_forgettable("a", [node(silent_s=silent_s)])


def test_node_that_was_not_observed_for_long_enough_may_be_forgotten_later() -> None:
    with pytest.raises(Conflict, match="observed for less than 15 s.* try again in 15 s"):
        check_forgettable("a", [node(silent_s=None)])


def test_last_node_with_messages_is_not_forgotten() -> None:
    gone = node(silent_s=20.0, role="leader")
    silent = node("b", "uid-b", silent_s=20.0, role="leader")
    for others in ([], [silent], [node("c", "uid-c", silent_s=0.0)]):
        with pytest.raises(Conflict, match="has their messages; start it again"):
            check_forgettable("a", [gone, *others])
    check_forgettable("a", [gone, node("b", "uid-b", silent_s=1.0, role="leader")])


@pytest.mark.parametrize("silent_s", [15.0, math.inf])
def test_silent_stand_by_is_forgotten(silent_s: float) -> None:
    check_forgettable("a", [node(silent_s=silent_s)])
    check_forgettable("unknown", [node(silent_s=0.0)])


def test_heartbeat_is_read_as_it_was_written() -> None:
    said = Heartbeat(
        role="leader",
        zone="east",
        version="1.0",
        feature_level=3,
        endpoints={"amqp": {"host": "127.0.0.1", "port": 5672}},
        connections=7,
        messages_per_second=1.5,
        is_cordoned=True,
        proofs=AddressProofs("abc", {"uid": "NotOpened"}, 1),
    )
    assert heartbeat_of(json.dumps(said.document())) == said
    newer = said.document() | {"unknown": 1}
    assert heartbeat_of(json.dumps(newer)) == said


def test_malformed_endpoints_of_a_heartbeat_are_left_out() -> None:
    good = {"host": "127.0.0.1", "port": 5672}
    for bad in (7, None, {}, {"host": "h"}, {"host": "h", "port": "x"}, {"host": 1, "port": 2}):
        said = {"connections": 3, "endpoints": {"amqp": good, "ws": bad}}
        assert heartbeat_of(json.dumps(said)) == Heartbeat(connections=3, endpoints={"amqp": good})
    assert heartbeat_of('{"endpoints": [1], "proofs": {"exceptions": [1]}}') == Heartbeat()


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"connections": "many"}', "7"])
def test_heartbeat_of_another_version_never_fails(text: str) -> None:
    assert heartbeat_of(text) == Heartbeat()
