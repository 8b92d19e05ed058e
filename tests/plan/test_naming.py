"""Short names that several address spaces claim: the oldest gets them."""

import itertools
import random

import pytest

from doubles import space
from enmasse.plan import Compiler, compile
from enmasse.resources import AddressSpace, Key


def shop(namespace: str, second: int, uid: str = "", name: str = "shop") -> AddressSpace:
    stamp = f"2026-01-01T00:00:{second:02}Z"
    uid = uid or f"{name}.{namespace}"
    return space(name, namespace=namespace, uid=uid, creation_timestamp=stamp)


def names(spaces: list[AddressSpace]) -> dict[str, tuple[str, ...]]:
    return {one.names[-1]: one.names[:-1] for one in compile(spaces, 1).plan.spaces}


def test_oldest_space_has_the_short_name_in_any_order() -> None:
    spaces = [shop("north", 1), shop("south", 2), shop("east", 3), shop("north", 4, name="lab")]
    expected = {"shop.north": ("shop",), "shop.south": (), "shop.east": (), "lab.north": ("lab",)}
    for some in itertools.permutations(spaces):
        assert names(list(some)) == expected


def test_smaller_uid_wins_a_tie_of_creation_times() -> None:
    assert names([shop("north", 1, "b"), shop("south", 1, "a")]) == {
        "shop.north": (),
        "shop.south": ("shop",),
    }


def test_later_space_reports_name_taken_until_the_older_one_is_deleted() -> None:
    compiler = Compiler()
    first, second = shop("north", 1), shop("south", 2)
    for one in (second, first):
        compiler.put(one.key, one)
    compiler.refresh()
    assert compiler.outcome(first.key).name_problem is None
    told = compiler.outcome(second.key).name_problem
    assert told is not None and told.reason == "NameTaken"
    assert "shop.south" in told.message and "north" not in told.message
    compiler.put(first.key, None)
    assert second.key in compiler.refresh()
    assert compiler.outcome(second.key).name_problem is None
    assert compiler.plan(2).spaces[0].names == ("shop", "shop.south")


@pytest.mark.parametrize("name", ["localhost", "mq"])
def test_host_names_of_the_platform_are_no_short_names(name: str) -> None:
    compiler = Compiler(hosts=["mq", "127.0.0.1"])
    called = shop("north", 1, name=name)
    compiler.put(called.key, called)
    compiler.refresh()
    assert compiler.plan(1).spaces[0].names == (f"{name}.north",)
    assert compiler.outcome(called.key).name_problem is not None


def test_incremental_naming_equals_full_compilation() -> None:
    rng = random.Random(1)
    compiler, there = Compiler(), dict[Key, AddressSpace]()
    for step in range(300):
        one = shop(rng.choice("abcd"), rng.randrange(4), name=rng.choice(["shop", "lab"]))
        gone = rng.random() < 0.4
        compiler.put(one.key, None if gone else one)
        if gone:
            there.pop(one.key, None)
        else:
            there[one.key] = one
        if step % 3 == 0:
            compiler.refresh()
            assert compiler.plan(1).spaces == compile(there.values(), 1).plan.spaces
