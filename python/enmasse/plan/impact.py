"""What a change of a plan, an infra config or an authentication service would change for tenants.
Pure.

The address spaces that use the resource are compiled twice, with it as it is and as it would be.
What differs is the impact: settings that reach the node, and whether a resource is served.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from enmasse.plan.compiler import Compiler
from enmasse.plan.declared import DeclaredState, Home, home_of_key
from enmasse.plan.model import PlannedSpace
from enmasse.plan.space import Outcome
from enmasse.resources import (
    AddressSpacePlan,
    AuthenticationService,
    BrokeredInfraConfig,
    Declared,
    Key,
    Resource,
    StandardInfraConfig,
)

_OWN = ("uid", "name", "names", "addresses", "users")
"""Members of the node's form that are reported by themselves, or that no such change touches."""

SERVED = "served"


class FieldChange(NamedTuple):
    """A setting before and after; None: absent."""

    field: str
    before: Any
    after: Any


class Affected(NamedTuple):
    """A resource that would change."""

    key: Key
    name: str
    """The address or the space, as clients name it."""

    changes: tuple[FieldChange, ...]


class Impact(NamedTuple):
    """Everything that would change, in the order of names."""

    spaces: Sequence[Affected]
    addresses: Sequence[Affected]


def resources_for(declared: DeclaredState, changed: Declared) -> list[Resource]:
    """Return the resources that decide about the impact: the catalogue, and the spaces that may use
    the resource with all that is in them.
    """
    found: list[Resource] = list(declared.chosen_from().values())
    for home in sorted(_homes(declared, changed)):
        members = declared.members(home)
        if members.space is not None:
            found += [members.space, *members.addresses.values(), *members.users.values()]
    return found


def impact_of(resources: Sequence[Resource], changed: Declared, *, exposed: bool) -> Impact:
    """Return the impact of a changed or new resource on those of `resources_for`."""
    others = [one for one in resources if one.key != changed.key]
    before = _compiled(resources, exposed=exposed)
    after = _compiled([*others, changed], exposed=exposed)
    planned_before, planned_after = _by_home(before), _by_home(after)
    spaces: list[Affected] = []
    addresses: list[Affected] = []
    for key in sorted(one.key for one in resources):
        if key.kind not in ("AddressSpace", "Address"):
            continue
        changes = list(_differing_outcome(before.outcome(key), after.outcome(key)))
        if key.kind == "AddressSpace":
            home = home_of_key(key)
            changes += _differing_space(planned_before.get(home), planned_after.get(home))
        if changes:
            affected = Affected(key, _name(before, resources, key), tuple(changes))
            (spaces if key.kind == "AddressSpace" else addresses).append(affected)
    return Impact(spaces, addresses)


def _homes(declared: DeclaredState, changed: Declared) -> set[Home]:
    """Return the spaces that may use a resource, by its name."""
    kind, name = changed.key.kind, changed.key.name
    if isinstance(changed, StandardInfraConfig | BrokeredInfraConfig):
        plans = {
            one.metadata.name
            for one in declared.chosen_from().values()
            if isinstance(one, AddressSpacePlan) and one.spec.infra_config_ref == name
        }
        users = [key for plan in plans for key in declared.using("AddressSpacePlan", plan)]
        return {home_of_key(key) for key in users}
    users = list(declared.using(kind, name))
    if isinstance(changed, AddressSpacePlan | AuthenticationService):
        # A space without a choice takes the default one.
        users += [key for key in declared.spaces() if _is_unchosen(declared.get(key), kind)]
    return {home_of_key(key) for key in users}


def _is_unchosen(space: Resource | None, kind: str) -> bool:
    spec = getattr(space, "spec", None)
    chosen = "plan" if kind == "AddressSpacePlan" else "authentication_service"
    return getattr(spec, chosen, None) is None


def _compiled(resources: Iterable[Resource], *, exposed: bool) -> Compiler:
    compiler = Compiler(DeclaredState(resources), exposed=exposed)
    compiler.refresh()
    return compiler


def _by_home(compiler: Compiler) -> dict[Home, PlannedSpace]:
    by_name = {one.names[-1]: one for one in compiler.spaces()}
    found = {}
    for name, planned in by_name.items():
        space, _, namespace = name.partition(".")
        found[namespace, space] = planned
    return found


def _differing_outcome(before: Outcome, after: Outcome) -> Iterator[FieldChange]:
    reasons = [_served(one) for one in (before, after)]
    if reasons[0] != reasons[1]:
        yield FieldChange(SERVED, *reasons)
    if before.planned is not None and after.planned is not None:
        yield from differences(
            before.planned.model_dump(by_alias=True, exclude_none=True),
            after.planned.model_dump(by_alias=True, exclude_none=True),
        )
    for name in ("login_problem", "name_problem"):
        former, now = (getattr(one, name) for one in (before, after))
        if former != now:
            texts = [one.message if one is not None else None for one in (former, now)]
            yield FieldChange({"login_problem": "login", "name_problem": "names"}[name], *texts)


def _served(outcome: Outcome) -> str:
    """Return `yes`, or why a resource is not served."""
    reason = outcome.excluded or outcome.waiting
    return "yes" if reason is None else reason.message


def _differing_space(before: PlannedSpace | None, after: PlannedSpace | None) -> list[FieldChange]:
    def members(one: PlannedSpace | None) -> dict[str, Any]:
        if one is None:
            return {}
        return one.model_dump(by_alias=True, exclude={*_OWN}, exclude_none=True)

    return list(differences(members(before), members(after)))


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], within: str = ""
) -> Iterator[FieldChange]:
    """Yield the members that differ, by their paths."""
    for name in sorted({*before, *after}):
        former, now = before.get(name), after.get(name)
        path = f"{within}{name}"
        if isinstance(former, Mapping) or isinstance(now, Mapping):
            yield from differences(former or {}, now or {}, f"{path}.")
        elif former != now and name not in _OWN:
            yield FieldChange(path, former, now)


def _name(compiler: Compiler, resources: Sequence[Resource], key: Key) -> str:
    planned = compiler.outcome(key).planned
    if planned is not None:
        return planned.name
    if key.kind == "AddressSpace":
        return key.name
    return next((str(getattr(one, "name", key.name)) for one in resources if one.key == key), "")
