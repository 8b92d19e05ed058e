"""Which addresses have room in the quota of an address space. Pure.

Admission refuses a request that needs more than there is. Addresses that bypassed admission, or
whose quota has become smaller, are declared all the same: the youngest of them wait.
"""

from collections import Counter
from collections.abc import Collection, Container

from enmasse.plan.catalogue import Catalogue
from enmasse.plan.declared import Home
from enmasse.plan.members import Choice, Members, oldest_first
from enmasse.plan.overlay import Overlay
from enmasse.plan.quota import Demand, Excess, exceeded, outgrown
from enmasse.resources import Address, AddressSpace, Key


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


def waiting_for_quota(
    members: Members, catalogue: Catalogue, *, served: Container[Key], excluded: Collection[Key]
) -> dict[Key, list[Excess]]:
    """Return the addresses of a space beyond its quota, with the limits that they would exceed.

    Served addresses keep their share, even beyond a quota that has become smaller. `excluded`:
    addresses that need none, because another one has their name.
    """
    plan = catalogue.plan_of_space(members.space) if members.space else None
    if plan is None:
        return {}
    # Most spaces have room, so single addresses are examined only for the others.
    counts = Counter(members.choices)
    counts.subtract(choice_of(members.addresses[key]) for key in excluded)
    if not exceeded(catalogue.demands(counts), plan):
        return {}
    here = [one for key, one in members.addresses.items() if key not in excluded]
    demands = Counter(catalogue.demand(*choice_of(one)) for one in here if one.key in served)
    waiting: dict[Key, list[Excess]] = {}
    refused: dict[Demand, list[Excess]] = {}
    for address in oldest_first(one for one in here if one.key not in served):
        wanted = catalogue.demand(*choice_of(address))
        if wanted not in refused:
            after = demands + Counter([wanted])
            excess = outgrown(demands, after, plan)
            if not excess:
                demands = after
                continue
            # Room only shrinks during the loop, so an address that does not fit now never fits
            # later.
            refused[wanted] = excess
        waiting[address.key] = refused[wanted]
    return waiting


def choice_of(address: Address) -> Choice:
    """Return type and plan of an address."""
    return address.spec.type, address.spec.plan
