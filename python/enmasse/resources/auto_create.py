"""Rules of an address space for addresses that links create, and their expiry. Pure."""

from collections.abc import Collection, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from enmasse.resources.messaging_user import pattern_of
from enmasse.resources.model import Model, Resource
from enmasse.resources.quantities import DURATION_MS_MAX, Duration

CreatedType = Literal["anycast", "multicast", "queue", "topic"]

DEFAULT_TYPE: CreatedType = "queue"
"""The type if neither the rule nor the link determines it."""

RULES_MAX = 100
"""Maximum rules of an address space: the node tries each for an unknown address."""

EXPIRE_AFTER_MS_MIN = 1_000
"""Minimum expiry time; the control plane checks every second."""

OWNER_LABEL = "enmasse.io/owner"
"""Label of an address that belongs to `autoCreate`. Without it the address never expires."""

OWNER = "auto-create"

CREATED_BY = "enmasse.io/created-by"
"""Annotation: the user whose link created the address."""

EXPIRE_AFTER = "enmasse.io/expire-after"
"""Annotation: the unused time after which the address is deleted, such as `60s`."""

_DURATION: TypeAdapter[int] = TypeAdapter(Duration)


def _expire_after(value: int) -> int:
    if value < EXPIRE_AFTER_MS_MIN:
        raise ValueError(f"must be at least {EXPIRE_AFTER_MS_MIN} milliseconds")
    return value


class AutoCreate(Model):
    """A rule: names for which links create an address, and its settings."""

    pattern: Annotated[str, AfterValidator(pattern_of)]
    """The names, as in the rights of a user: `*` or `+` is one level, `#` any number, `jobs*` a
    prefix."""

    type: CreatedType | None = None
    """The only type that is created. Absent: the type that the link requests by its capabilities
    (`queue`, `topic`, `direct`), else `queue`."""

    plan: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Plan of the address. Default: the first one that the space offers for its type."""

    expire_after: Annotated[Duration, AfterValidator(_expire_after)] | None = None
    """Time without messages, links and subscriptions after which the address is deleted. Absent:
    never."""


class Creation(NamedTuple):
    """The rule and the type for a link."""

    rule: AutoCreate
    type: CreatedType


def choose(
    rules: Sequence[AutoCreate], patterns: Collection[str], asked: CreatedType | None
) -> Creation | None:
    """Return the address to create for a link; None: no rule creates the requested type.

    `patterns` are those that match the name. The first rule with one of these patterns and the
    requested type applies.
    """
    for rule in rules:
        if rule.pattern in patterns and (asked is None or rule.type in (None, asked)):
            return Creation(rule, rule.type or asked or DEFAULT_TYPE)
    return None


def expiry_ms(resource: Resource) -> int | None:
    """Return the unused time after which an address is deleted; None: never.

    Only addresses of `autoCreate` with a valid annotation expire.
    """
    metadata = resource.metadata
    text = metadata.annotations.get(EXPIRE_AFTER)
    if metadata.labels.get(OWNER_LABEL) != OWNER or text is None:
        return None
    try:
        duration = _DURATION.validate_python(text)
    except ValidationError:
        return None
    return min(max(duration, EXPIRE_AFTER_MS_MIN), DURATION_MS_MAX)
