"""Addresses that an address space has created for links: by which rule, and until when. Pure."""

from collections.abc import Collection, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from enmasse.resources.messaging_user import pattern_of
from enmasse.resources.model import Model, Resource
from enmasse.resources.quantities import DURATION_MS_MAX, Duration

CreatedType = Literal["anycast", "multicast", "queue", "topic"]

DEFAULT_TYPE: CreatedType = "queue"
"""What is created where neither the rule nor the link says."""

RULES_MAX = 100
"""Rules of an address space: the node tries each with a name that is no address."""

EXPIRE_AFTER_MS_MIN = 1_000
"""Shortest time without use; the control plane looks once a second."""

OWNER_LABEL = "enmasse.io/owner"
"""Label of an address that belongs to `autoCreate`. Without it the address stays for good."""

OWNER = "auto-create"

CREATED_BY = "enmasse.io/created-by"
"""Annotation: the user for whose link the address was created."""

EXPIRE_AFTER = "enmasse.io/expire-after"
"""Annotation: the time without use after which the address is deleted, such as `60s`."""

_DURATION: TypeAdapter[int] = TypeAdapter(Duration)


def _expire_after(value: int) -> int:
    if value < EXPIRE_AFTER_MS_MIN:
        raise ValueError(f"must be at least {EXPIRE_AFTER_MS_MIN} milliseconds")
    return value


class AutoCreate(Model):
    """Names of which links may have an address created, and what it is."""

    pattern: Annotated[str, AfterValidator(pattern_of)]
    """The names, as in the rights of a user: `*` or `+` is one level, `#` any number, `jobs*` what
    begins so."""

    type: CreatedType | None = None
    """The only type that is created. Left out: what the link asks for by its capabilities (`queue`,
    `topic`, `direct`), else `queue`."""

    plan: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Name of the plan of the address. Left out: the first for its type that the space offers."""

    expire_after: Annotated[Duration, AfterValidator(_expire_after)] | None = None
    """Time without messages, links and subscriptions after which the address is deleted. Left out:
    it stays."""


class Creation(NamedTuple):
    """What is created for a link."""

    rule: AutoCreate
    type: CreatedType


def choose(
    rules: Sequence[AutoCreate], patterns: Collection[str], asked: CreatedType | None
) -> Creation | None:
    """Return what is created for a link; None: no rule creates what it asks for.

    `patterns` are those that stand for the name. The first rule counts that has one of them and
    creates addresses of the type that the link asks for.
    """
    for rule in rules:
        if rule.pattern in patterns and (asked is None or rule.type in (None, asked)):
            return Creation(rule, rule.type or asked or DEFAULT_TYPE)
    return None


def expiry_ms(resource: Resource) -> int | None:
    """Return the time without use after which an address is deleted; None: it stays.

    Only an address of `autoCreate` is ever deleted, and only where its annotation can be read.
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
