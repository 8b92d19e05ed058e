"""What a change of a plan, an infra config or a service would change for tenants."""

from typing import Any

import pytest

from doubles import address_plan, document, infra, queue, space, space_plan
from enmasse.plan import DeclaredState
from enmasse.plan.impact import FieldChange, Impact, impact_of, resources_for
from enmasse.resources import AuthenticationService, Declared, Resource, parse

SMALL = address_plan("small", "queue", broker=0.1)


def with_plan(name: str, plan: str = "small", space: str = "default") -> Resource:
    made = queue(f"{space}.{name}")
    return made.model_copy(update={"spec": made.spec.model_copy(update={"plan": plan})})


def impact(changed: Declared, *resources: Resource, exposed: bool = False) -> Impact:
    return impact_of(resources_for(DeclaredState(resources), changed), changed, exposed=exposed)


def changes(found: Impact) -> dict[str, tuple[FieldChange, ...]]:
    return {one.name: one.changes for one in (*found.spaces, *found.addresses)}


WORLD = (
    *(space(plan="p"), infra(), SMALL, space_plan("p", [SMALL])),
    *(with_plan("a"), with_plan("b"), queue("default.other")),
)


def test_a_field_of_an_address_plan_changes_its_addresses_only() -> None:
    changed = address_plan("small", "queue", broker=0.1, messageTtl={"maximum": 5000})
    found = changes(impact(changed, *WORLD))
    assert found == {name: (FieldChange("ttl.maximumMs", None, 5000),) for name in ("a", "b")}


def test_an_equal_plan_changes_nothing() -> None:
    again = address_plan("small", "queue", broker=0.1, shortDescription="other words")
    assert impact(again, *WORLD) == Impact([], [])


def test_a_dearer_plan_leaves_addresses_beyond_the_quota_unserved() -> None:
    changed = address_plan("small", "queue", broker=6.0)
    found = changes(impact(changed, *WORLD))
    (served,) = (one for name in found for one in found[name] if one.field == "served")
    assert served.before == "yes" and "Quota exceeded" in served.after


def test_limits_of_a_space_plan_change_its_spaces() -> None:
    changed = space_plan("p", [SMALL], limits={"connections": 7})
    found = impact(changed, *WORLD)
    (one,) = found.spaces
    assert one.changes == (FieldChange("limits.connections", None, 7),)
    assert not found.addresses


def test_a_plan_that_is_no_longer_offered_leaves_its_addresses_waiting() -> None:
    large = address_plan("large", "queue", broker=0.5)
    found = changes(impact(space_plan("p", [large]), *WORLD, large))
    assert {one.field for name in ("a", "b") for one in found[name]} == {"served"}


def test_an_infra_config_reaches_spaces_by_their_plans() -> None:
    changed = infra(router={"policy": {"maxConnections": 9}})
    found = impact(changed, *WORLD)
    assert [one.name for one in found.spaces] == ["default"]
    assert FieldChange("limits.connections", None, 9) in found.spaces[0].changes


def service(**spec: Any) -> AuthenticationService:
    parsed = parse(
        {
            "apiVersion": "admin.enmasse.io/v1beta1",
            "kind": "AuthenticationService",
            "metadata": {"name": "own", "namespace": "enmasse-infra"},
            "spec": spec,
        }
    )
    assert isinstance(parsed, AuthenticationService)
    return parsed


def test_a_service_changes_how_clients_log_in() -> None:
    spec = {"type": "standard", "plan": "p", "authenticationService": {"name": "own"}}
    user = parse(document("AddressSpace", "default", spec))
    world = [one for one in WORLD if one.key != user.key]
    found = impact(service(type="none"), *world, user, service(type="standard"))
    fields = {one.field for each in found.spaces for one in each.changes}
    assert "authentication.anonymous" in fields


@pytest.mark.parametrize("changed", [address_plan("unused", "queue", broker=1.0), infra("unused")])
def test_an_unused_resource_changes_nothing(changed: Declared) -> None:
    assert impact(changed, *WORLD) == Impact([], [])
