"""Readiness of an address: the node confirms it, and its references exist."""

from enmasse.control.status import (
    Check,
    Seen,
    excluded_from_plan,
    not_proven,
    not_served,
    plan_not_applied,
    plan_refused,
    terminating,
    waiting_for_another,
)
from enmasse.plan import Outcome
from enmasse.resources import Address
from enmasse.resources.address import NO_LIMIT, Limits, MessageRedelivery, MessageTtl, Subscription
from enmasse.resources.conditions import INTACT, with_unmet
from enmasse.resources.forwarders import ForwarderStatus

CHAIN: tuple[Check, ...] = (
    terminating,
    excluded_from_plan,
    plan_refused,
    plan_not_applied,
    not_served,
    not_proven,
    waiting_for_another,
)


def with_losses(address: Address, seen: Seen) -> Address:
    """Return an address whose status reports the number of lost messages."""
    damaged = seen.proof.damaged if seen.proof else {}
    count = damaged.get(address.metadata.uid or "", 0)
    why = count and (
        "MessagesLost",
        (f"{count:,} messages were lost to damage at rest since the start; see enmasse logs"),
    )
    return with_unmet(address, INTACT, why or None, seen.now)


def with_effective(address: Address, outcome: Outcome) -> Address:
    """Return an address whose status contains its effective settings, as in the Plan."""
    # From the Plan, not from the spec: it has the defaults, and the values of plans and topic.
    planned = outcome.planned
    limits = planned and Limits(
        **{name: getattr(planned.limits, name) for name in Limits.model_fields}
    )
    ttl = planned.ttl if planned else None
    redelivery = planned.redelivery if planned else None
    subscription = planned.subscription if planned else None
    return address.with_status(
        address.status.model_copy(
            update={
                "message_ttl": ttl and MessageTtl(minimum=ttl.minimum_ms, maximum=ttl.maximum_ms),
                "message_redelivery": redelivery
                and MessageRedelivery(
                    maximum_delivery_attempts=redelivery.attempts or NO_LIMIT,
                    redelivery_delay=redelivery.delay_ms or 0,
                    redelivery_delay_multiplier=redelivery.delay_multiplier or 1.0,
                    maximum_delivery_delay=redelivery.delay_maximum_ms,
                ),
                "subscription": subscription
                and Subscription(max_consumers=subscription.max_consumers),
                "limits": limits if limits != Limits() else None,
                "forwarders": tuple(
                    ForwarderStatus(
                        name=one.name, messages=("its connector is stored but not implemented",)
                    )
                    for one in address.spec.forwarders or ()
                )
                or None,
                "plan_status": outcome.applied,
            }
        )
    )
