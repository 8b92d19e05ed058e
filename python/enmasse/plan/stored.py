"""Effective settings of stored addresses: defaults, and what a subscription inherits from its
topic. Pure.
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TypeVar

from enmasse.plan.model import (
    LINK_CAPACITY,
    AddressLimits,
    PlannedAddress,
    PlannedDuplicateDetection,
    PlannedRedelivery,
    PlannedRetention,
    PlannedSubscription,
    PlannedTtl,
)
from enmasse.resources import Address, AddressSpec
from enmasse.resources.address import (
    NO_LIMIT,
    DuplicateDetection,
    Limits,
    MessageRedelivery,
    MessageTtl,
    NodeSettings,
    Retention,
)
from enmasse.resources.model import Model, filled

ATTEMPTS_DEFAULT = 10
"""Default delivery attempts of an address with a dead letter."""

DUPLICATE_IDS_DEFAULT = 10_000
DUPLICATE_WINDOW_MS_DEFAULT = 600_000

FROM_TOPIC = (
    "deadletter",
    "expiry",
    "message_ttl",
    "treat_reject_as_unmodified_delivery_failed",
    "durability",
)
"""Fields that a subscription inherits from its topic."""

SHARED_MAX = 256
"""Interned limits: most addresses have those of their plan."""

LIMITS_FROM_TOPIC = ("messages", "bytes", "on_full")


def planned(
    address: Address,
    topic: Address | None,
    missing: Callable[[str], bool],
    link_capacity: int | None = None,
) -> PlannedAddress:
    """Return an address in the node's form.

    `topic` is that of a subscription, or None. `missing` tells whether a dead letter name is
    undeclared. `link_capacity`: credit of a sender.
    """
    spec = _with_topic(address.spec, topic.spec) if topic else address.spec
    stored = spec.type not in ("anycast", "multicast")
    # The durability of a subscription is unknown while its topic is missing: it stays unchanged.
    durability = spec.durability or ("disk" if spec.type != "subscription" or topic else None)
    deadletter = _unless(missing, spec.deadletter)
    return PlannedAddress(
        uid=address.metadata.uid or "",
        name=address.name,
        type=spec.type,
        limits=_limits(spec.limits, link_capacity or LINK_CAPACITY),
        durability=durability if stored else None,
        ttl=_ttl(spec.message_ttl) if spec.message_ttl else None,
        redelivery=_redelivery(spec, without_limit=deadletter != spec.deadletter),
        deadletter=deadletter,
        expiry=_unless(missing, spec.expiry),
        retention=_retention(spec.retention) if spec.retention else None,
        partitions=(spec.partitions or 1) if spec.retention else None,
        duplicate_detection=(
            _duplicate_detection(spec.duplicate_detection) if spec.duplicate_detection else None
        ),
        subscription=_subscription(address),
        **{name: getattr(spec, name) or None for name in NodeSettings.model_fields},
    )


def _with_topic(spec: AddressSpec, topic: AddressSpec) -> AddressSpec:
    """Return the spec of a subscription with inherited fields from its topic."""
    inherited = {name: getattr(topic, name) for name in FROM_TOPIC}
    limits = topic.limits and topic.limits.model_copy(
        update={name: None for name in Limits.model_fields if name not in LIMITS_FROM_TOPIC}
    )
    return _filled(
        spec,
        inherited
        | {
            "message_redelivery": _merged(spec.message_redelivery, topic.message_redelivery),
            "limits": _merged(spec.limits, limits),
        },
        replace=("message_redelivery", "limits"),
    )


_Piece = TypeVar("_Piece", bound=Model)


def _merged(piece: _Piece | None, default: _Piece | None) -> _Piece | None:
    if piece is None or default is None:
        return piece or default
    return filled(piece, default)


def _filled(piece: _Piece, values: dict[str, object], *, replace: Collection[str] = ()) -> _Piece:
    """Return a part with missing values filled in, and with values that override its own."""
    update = {
        name: value
        for name, value in values.items()
        if name in replace or getattr(piece, name) is None
    }
    return piece.model_copy(update=update)


def _unless(missing: Callable[[str], bool], name: str | None) -> str | None:
    return None if name is None or missing(name) else name


@lru_cache(maxsize=SHARED_MAX)
def _limits(limits: Limits | None, link_capacity: int) -> AddressLimits:
    own_settings = {name: getattr(limits, name) for name in Limits.model_fields} if limits else {}
    return AddressLimits(link_capacity=link_capacity, **own_settings)


def _redelivery(spec: AddressSpec, *, without_limit: bool) -> PlannedRedelivery | None:
    """Return delivery attempts and delays.

    `without_limit`: its dead letter is missing. Messages, rejected ones too, are then redelivered
    without a limit until the dead letter exists again.
    """
    own_settings = spec.message_redelivery or MessageRedelivery()
    attempts = own_settings.maximum_delivery_attempts
    if attempts is None and spec.deadletter is not None:
        attempts = ATTEMPTS_DEFAULT
    redelivery = PlannedRedelivery(
        attempts=None if attempts == NO_LIMIT or without_limit else attempts,
        delay_ms=own_settings.redelivery_delay,
        delay_multiplier=own_settings.redelivery_delay_multiplier,
        delay_maximum_ms=own_settings.maximum_delivery_delay,
        reject_is_failure=spec.treat_reject_as_unmodified_delivery_failed or without_limit or None,
    )
    return redelivery if redelivery != PlannedRedelivery() else None


def _ttl(ttl: MessageTtl) -> PlannedTtl:
    return PlannedTtl(minimum_ms=ttl.minimum, maximum_ms=ttl.maximum)


def _retention(retention: Retention) -> PlannedRetention:
    return PlannedRetention(bytes=retention.bytes, age_ms=retention.age)


def _duplicate_detection(detection: DuplicateDetection) -> PlannedDuplicateDetection:
    return PlannedDuplicateDetection(
        ids=detection.ids or DUPLICATE_IDS_DEFAULT,
        window_ms=detection.window or DUPLICATE_WINDOW_MS_DEFAULT,
    )


def _subscription(address: Address) -> PlannedSubscription | None:
    if address.spec.topic is None:
        return None
    return PlannedSubscription(topic=address.spec.topic, max_consumers=address.max_consumers)
