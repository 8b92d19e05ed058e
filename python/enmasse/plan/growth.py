"""Limits of a request by the quota of an address space. Pure.

The compiler applies the same limits to declared resources: there, resources wait for room.
"""

from enmasse.plan.declared import Home
from enmasse.plan.overlay import Overlay
from enmasse.plan.quota import Excess, exceeded, outgrown
from enmasse.resources import AddressSpace, Key


def exceeded_by_new_plan(after: Overlay, home: Home) -> list[Excess]:
    """Return the limits of a newly chosen plan that the space's addresses exceed.

    A limit that was exceeded before and does not shrink is excluded.
    """
    key = Key("AddressSpace", *home)
    now, before = after.get(key), after.base.get(key)
    if not isinstance(now, AddressSpace) or not isinstance(before, AddressSpace):
        return []
    plan = after.catalogue.plan_of_space(now)
    if plan is None or now.spec.plan == before.spec.plan:
        return []
    former = after.catalogue.plan_of_space(before)
    had = after.catalogue.demands(after.base.choices(home))
    held = {one.resource: one.limit for one in exceeded(had, former)} if former else {}
    demands = after.catalogue.demands(after.choices(home))
    return [
        one for one in exceeded(demands, plan) if one.limit < held.get(one.resource, one.needed)
    ]


def outgrown_quota(after: Overlay, home: Home) -> list[Excess]:
    """Return the limits of a space's plan that its addresses exceed by more than before.

    All addresses count, pending ones too, so that the result does not depend on the progress of
    the controller. Only additional use counts, so other changes are possible after a quota has
    shrunk.
    """
    space = after.get(Key("AddressSpace", *home))
    catalogue = after.catalogue
    plan = catalogue.plan_of_space(space) if isinstance(space, AddressSpace) else None
    if plan is None:
        return []
    demands = catalogue.demands(after.choices(home))
    # Most requests fit, so the former demand is computed only for the others.
    if not exceeded(demands, plan):
        return []
    return outgrown(catalogue.demands(after.base.choices(home)), demands, plan)
