"""Effective settings of an address: its own, those of its plan, and those of its space's plan.
Pure.

The stricter of two limits applies.
"""

from collections.abc import Callable

from enmasse.plan.catalogue import Bounds, smaller
from enmasse.plan.quota import ONE, Demand
from enmasse.resources import Address, AddressPlan, AddressSpec
from enmasse.resources.address import Limits, MessageTtl
from enmasse.resources.address_rules import ALLOWED, NOT_ON_STREAMS
from enmasse.resources.model import filled

_BOUNDS = ("messages", "bytes", "message_size", "consumers", "producers")


def with_plan(
    address: Address, plan: AddressPlan | None, demand: Demand, bounds: Bounds
) -> Address:
    """Return an address with the settings of its plans filled in."""
    spec = address.spec
    may = _permitted(spec)
    changes: dict[str, object] = {}
    if plan is not None and may("messageTtl"):
        changes["message_ttl"] = narrower(spec.message_ttl, plan.spec.message_ttl)
    if plan is not None and may("messageRedelivery"):
        own_redelivery, default = spec.message_redelivery, plan.spec.message_redelivery
        changes["message_redelivery"] = (
            filled(own_redelivery, default)
            if own_redelivery and default
            else own_redelivery or default
        )
    if bounds.reject_is_failure and may("treatRejectAsUnmodifiedDeliveryFailed"):
        if spec.treat_reject_as_unmodified_delivery_failed is None:
            changes["treat_reject_as_unmodified_delivery_failed"] = True
    changes["limits"] = _limits(spec, plan, demand, bounds, may)
    changed = {name: one for name, one in changes.items() if one != getattr(spec, name)}
    if not changed:
        return address
    return address.model_copy(update={"spec": spec.model_copy(update=changed)})


def narrower(one: MessageTtl | None, plan: MessageTtl | None) -> MessageTtl | None:
    """Return the intersection of two ranges of time to live: the greater minimum and the smaller
    maximum.

    If it is empty, the range of the plan applies.
    """
    if one is None or plan is None:
        return one or plan
    maximum = smaller(one.maximum, plan.maximum)
    least = [minimum for minimum in (one.minimum, plan.minimum) if minimum is not None]
    minimum = max(least, default=None)
    if minimum is not None and maximum is not None and minimum > maximum:
        return plan
    return MessageTtl(minimum=minimum, maximum=maximum)


def _permitted(spec: AddressSpec) -> Callable[[str], bool]:
    """Return a predicate for the fields that an address supports."""

    def may(field: str) -> bool:
        is_refused = spec.retention is not None and field in NOT_ON_STREAMS
        return spec.type in ALLOWED[field] and not is_refused

    return may


def _limits(
    spec: AddressSpec,
    plan: AddressPlan | None,
    demand: Demand,
    bounds: Bounds,
    may: Callable[[str], bool],
) -> Limits | None:
    planned = plan.spec.limits if plan else None
    unbounded = planned is None and bounds.message_size is None and bounds.broker_bytes is None
    if unbounded and spec.type != "deadletter":
        return spec.limits
    own, default = spec.limits or Limits(), planned or Limits()
    found: dict[str, int | None] = {
        name: smaller(getattr(own, name), getattr(default, name))
        for name in _BOUNDS
        if may(f"limits.{_ALIAS[name]}")
    }
    if may("limits.messageSize"):
        found["message_size"] = smaller(found["message_size"], bounds.message_size)
    share = _share(demand, bounds) if may("limits.bytes") else None
    if share is not None:
        found["bytes"] = smaller(found["bytes"], share)
    limits = own.model_copy(update=found | {"on_full": None})
    # A subscription may inherit its limits from its topic.
    if limits.messages or limits.bytes or spec.type == "subscription":
        on_full = own.on_full or default.on_full or (bounds.on_full if share else None)
        if spec.type == "deadletter":
            on_full = (
                "dropOldest"  # a dead letter cannot reject, even if an older version stored it so
            )
        limits = limits.model_copy(update={"on_full": on_full})
    return limits if limits != Limits() else None


_ALIAS = {name: Limits.model_fields[name].alias or name for name in _BOUNDS}


def _share(demand: Demand, bounds: Bounds) -> int | None:
    """Return the share of a broker's bytes for an address's credit."""
    if bounds.broker_bytes is None or not demand.broker:
        return None
    return max(bounds.broker_bytes * demand.broker // demand.shares // ONE, 1)
