"""Label and field selectors."""

import pytest

from doubles import address, queue
from enmasse.api.resources.selectors import selector
from enmasse.base.errors import Code, Invalid
from enmasse.resources import Address, Event
from enmasse.resources.core import NamedMetadata, ObjectReference

MARKED = address(labels={"team": "north", "tier": "7", "example.com/x": ""})


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("team=north", True),
        ("team==north", True),
        (" team = north ", True),
        ("team=south", False),
        ("team!=south", True),
        ("none!=south", True),
        ("team", True),
        ("none", False),
        ("!none", True),
        ("!team", False),
        ("example.com/x", True),
        ("example.com/x=", True),
        ("team in (north, south)", True),
        ("team in (south)", False),
        ("team notin (south)", True),
        ("none notin (south)", True),
        ("tier>6,tier<8", True),
        ("tier>7", False),
        ("team>1", False),
        ("team=north,tier=8", False),
        ("team in (north),!none,tier", True),
    ],
)
def test_label_selector_matches_as_in_kubernetes(text: str, selected: bool) -> None:
    assert selector(Address, text, "")(MARKED) is selected


@pytest.mark.parametrize(
    "text", ["=", "a=b=c", "a in b", "a in (b", "!", "a,,b", "a,", "tier>x", "a" * 20_000]
)
def test_malformed_label_selector_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="labelSelector") as refusal:
        selector(Address, text, "")
    assert refusal.value.code == Code.SELECTOR_UNREADABLE


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("metadata.name=default.orders", True),
        ("metadata.name==default.other", False),
        ("metadata.namespace!=north", True),
        ("metadata.space=default", True),
        ("metadata.space=def", False),
        ("metadata.space!=default", False),
        ("spec.type=queue", True),
        ("spec.plan=", True),
        ("status.isReady=false,status.phase=Pending", True),
        ("status.isReady=true", False),
    ],
)
def test_field_selector_matches_by_path(text: str, selected: bool) -> None:
    assert selector(Address, "", text)(queue()) is selected


@pytest.mark.parametrize("text", ["spec.color=red", "metadata.name", "=x", "metadata.name=a,"])
def test_malformed_field_selector_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="fieldSelector"):
        selector(Address, "", text)


def test_field_selector_accepts_an_escaped_comma() -> None:
    event = Event(
        metadata=NamedMetadata(name="e"),
        involved_object=ObjectReference(kind="Address", name="a,b"),
        reason="Served",
    )
    assert selector(Event, "", r"involvedObject.name=a\,b,reason=Served")(event)
    assert not selector(Event, "", "involvedObject.kind=AddressSpace")(event)
