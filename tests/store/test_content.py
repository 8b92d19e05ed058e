"""The resources of a store, against a dictionary."""

from hypothesis import given
from hypothesis import strategies as some

from doubles import address, space
from enmasse.resources import Key, Resource
from enmasse.store.content import Content

NAMES = [f"{first}.{second}" for first in "ab" for second in "xyz"]
RESOURCES: list[Resource] = [
    *(address(name, namespace=where) for name in NAMES for where in ("one", "two")),
    *(space(name, namespace="one") for name in "ab"),
]
STEPS = some.lists(some.tuples(some.sampled_from(RESOURCES), some.booleans()), max_size=40)
ASKED = [
    (kind, namespace)
    for kind in (None, "Address", "AddressSpace", "MessagingUser")
    for namespace in (None, "one", "two", "three")
]


@given(STEPS)
def test_lists_are_those_of_a_sorted_dictionary(steps: list[tuple[Resource, bool]]) -> None:
    content, model = Content(), dict[Key, Resource]()
    for resource, is_put in steps:
        if is_put:
            content.put(resource)
            model[resource.key] = resource
        elif resource.key in model:
            content.remove(resource.key)
            del model[resource.key]
        assert content.get(resource.key) is model.get(resource.key)
        for kind, namespace in ASKED:
            assert [*content.listed(kind, namespace)] == [
                model[key]
                for key in sorted(model)
                if kind in (None, key.kind) and namespace in (None, key.namespace)
            ]
        assert {one.key for one in content} == model.keys()


def test_a_list_does_not_follow_later_changes() -> None:
    first, second = RESOURCES[0], RESOURCES[2]
    content = Content([second, first])
    before = content.listed("Address", "one")
    content.remove(second.key)
    assert [*before] == [first, second]
    assert [*content.listed("Address", "one")] == [first]


def test_an_unchanged_list_is_shared() -> None:
    content = Content(RESOURCES)
    assert content.listed("Address", "one") is content.listed("Address", "one")
