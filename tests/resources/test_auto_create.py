"""The rule that creates an address for a link, and the expiry of such addresses."""

from typing import Any

import pytest

from doubles import address, document
from enmasse.base.errors import Invalid
from enmasse.resources import AddressSpace, parse
from enmasse.resources.auto_create import (
    DEFAULT_TYPE,
    EXPIRE_AFTER,
    OWNER,
    OWNER_LABEL,
    RULES_MAX,
    AutoCreate,
    choose,
    expiry_ms,
)


def space(*rules: dict[str, Any], type_: str = "standard") -> AddressSpace:
    made = parse(document("AddressSpace", "shop", {"type": type_, "autoCreate": list(rules)}))
    assert isinstance(made, AddressSpace)
    return made


def test_space_has_no_auto_create_rules_by_default() -> None:
    made = parse(document("AddressSpace", "shop", {"type": "standard"}))
    assert isinstance(made, AddressSpace)
    assert made.spec.auto_create == ()
    assert "autoCreate" not in made.document()["spec"]


def test_auto_create_rule_has_pattern_plan_and_expiry() -> None:
    (rule,) = space({"pattern": "jobs/*", "plan": "small", "expireAfter": "5m"}).spec.auto_create
    assert rule == AutoCreate(pattern="jobs/*", plan="small", expire_after=300_000)


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({}, "spec.autoCreate[0].pattern"),
        ({"pattern": "a*b/c"}, "spec.autoCreate[0].pattern"),
        ({"pattern": "a", "type": "subscription"}, "spec.autoCreate[0].type"),
        ({"pattern": "a", "expireAfter": 999}, "spec.autoCreate[0].expireAfter"),
        ({"pattern": "a", "expireAfter": "soon"}, "spec.autoCreate[0].expireAfter"),
    ],
)
def test_invalid_auto_create_rule_is_rejected_naming_the_field(
    rule: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        space(rule)
    assert [fault.field for fault in refused.value.faults] == [field]


def test_brokered_space_rejects_an_auto_create_rule_for_anycast() -> None:
    with pytest.raises(Invalid) as refused:
        space(
            {"pattern": "#", "type": "queue"}, {"pattern": "#", "type": "anycast"}, type_="brokered"
        )
    assert [fault.field for fault in refused.value.faults] == ["spec.autoCreate[1].type"]


def test_a_space_has_a_bounded_number_of_rules() -> None:
    rules = [{"pattern": f"a{number}"} for number in range(RULES_MAX + 1)]
    space(*rules[1:])
    with pytest.raises(Invalid):
        space(*rules)


QUEUES = AutoCreate(pattern="jobs/#", type="queue")
TOPICS = AutoCreate(pattern="jobs/#", type="topic")
ANY = AutoCreate(pattern="#")


def test_first_rule_that_matches_pattern_and_capability_applies() -> None:
    rules = (QUEUES, TOPICS, ANY)
    for asked, rule, type_ in (
        (None, QUEUES, "queue"),
        ("queue", QUEUES, "queue"),
        ("topic", TOPICS, "topic"),
        ("anycast", ANY, "anycast"),
    ):
        assert choose(rules, ["jobs/#", "#"], asked) == (rule, type_)
    assert choose(rules, ["#"], None) == (ANY, DEFAULT_TYPE)
    assert choose(rules, [], None) is None
    assert choose((QUEUES, TOPICS), ["jobs/#"], "multicast") is None


def test_only_auto_created_addresses_expire() -> None:
    own = {OWNER_LABEL: OWNER}
    for labels, annotations, expected in (
        (own, {EXPIRE_AFTER: "60000ms"}, 60_000),
        (own, {EXPIRE_AFTER: "1m"}, 60_000),
        (own, {EXPIRE_AFTER: "1ms"}, 1_000),
        (own, {EXPIRE_AFTER: "soon"}, None),
        (own, {}, None),
        ({}, {EXPIRE_AFTER: "60000ms"}, None),
        ({OWNER_LABEL: "somebody"}, {EXPIRE_AFTER: "60000ms"}, None),
    ):
        assert expiry_ms(address(labels=labels, annotations=annotations)) == expected
