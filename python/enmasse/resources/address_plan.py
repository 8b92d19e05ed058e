"""AddressPlan: the credit of an address of one type, and limits of its messages."""

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from enmasse.base.errors import Fault
from enmasse.base.kinds import PLAN_VERSIONS
from enmasse.resources.address import (
    TYPES,
    Limits,
    MessageRedelivery,
    MessageTtl,
    PlanResources,
)
from enmasse.resources.address_rules import ALLOWED, refusing_dead_letter
from enmasse.resources.model import (
    AGE,
    Administered,
    Column,
    Model,
)

"""Both versions accept both forms: fields below `spec`, and the older form without it."""

PARTITIONS_MAX = 1000
DISPLAYED = ("displayName", "displayOrder", "shortDescription", "longDescription")

PLAN_COLUMNS = (
    Column("Ready", "status.isReady", "boolean"),
    Column("Phase", "status.phase"),
    Column("Status", "status.message", priority=1),
    AGE,
)


class Display(Model):
    """How a plan is presented to tenants."""

    display_name: str | None = None
    """Display name."""

    display_order: int | None = None
    """Position in lists, lowest first; default 0."""

    short_description: str | None = None
    """One line."""

    long_description: str | None = None
    """A few sentences."""


def _known_type(value: str) -> str:
    if value not in TYPES:
        raise ValueError(f"{value!r} is not an address type; types: {', '.join(TYPES)}")
    return value


class AddressPlanSpec(Display):
    """Specification of a plan."""

    address_type: Annotated[str, AfterValidator(_known_type)]
    """The address type of the plan."""

    resources: PlanResources | None = None
    """Credit of an address; not needed for deadletter."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=PARTITIONS_MAX)] | None = None
    """Minimum number of brokers that the credit of a queue is divided over; default 1."""

    message_ttl: MessageTtl | None = None
    """Bounds of the time to live; the stricter of plan and address applies."""

    message_redelivery: MessageRedelivery | None = None
    """Default delivery attempts and delays of addresses."""

    limits: Limits | None = None
    """Limits; the smaller of plan and address applies."""


class AddressPlan(Administered):
    """A plan for addresses of one type."""

    columns: ClassVar[tuple[Column, ...]] = (Column("Type", "spec.addressType"), *PLAN_COLUMNS)
    selectable: ClassVar[tuple[str, ...]] = ("spec.addressType", "status.phase")
    immutable: ClassVar[tuple[str, ...]] = ("address_type",)

    api_version: str = PLAN_VERSIONS[0]
    kind: Literal["AddressPlan"] = Field(default="AddressPlan")
    spec: AddressPlanSpec

    @classmethod
    def present_form(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Move the fields of a document without `spec` below `spec`."""
        return below_spec(
            data, (*DISPLAYED, "addressType"), ("requiredResources", "credit", "resources")
        )

    @property
    def order(self) -> tuple[float, str]:
        """Position among plans; those without one come last."""
        shown = self.spec.display_order
        return math.inf if shown is None else shown, self.metadata.name

    def faults(self) -> list[Fault]:
        """Return errors for fields that the address type does not support."""
        spec, type_ = self.spec, self.spec.address_type
        found = []
        credit = spec.resources or PlanResources()
        if type_ != "deadletter" and credit.router is None and credit.broker is None:
            found.append(Fault("spec.resources", "needs router, broker or both"))
        if spec.partitions is not None and type_ != "queue":
            found.append(
                Fault("spec.partitions", f"is supported by plans of queues only, not of {type_}")
            )
        limits = spec.limits or Limits()
        given = {
            "messageTtl": spec.message_ttl,
            "messageRedelivery": spec.message_redelivery,
            **{f"limits.{name}": one for name, one in limits.document().items()},
        }
        found += [
            Fault(f"spec.{name}", f"is not supported by type {type_}")
            for name, one in given.items()
            if one is not None and type_ not in ALLOWED[name]
        ]
        if limits.on_full and limits.messages is None and limits.bytes is None:
            found.append(Fault("spec.limits.onFull", "needs limits.messages or limits.bytes"))
        return [*found, *refusing_dead_letter(type_, limits.on_full)]


def below_spec(
    data: dict[str, Any], plain: tuple[str, ...], listed: tuple[str, str, str]
) -> dict[str, Any]:
    """Convert a document of the older form, without `spec`.

    `plain` fields move unchanged. `listed` maps the name of a list of `{name, VALUE}` to VALUE and
    the mapping that replaces the list.
    """
    if "spec" in data or not any(name in data for name in (*plain, listed[0])):
        return data
    moved = {name: data[name] for name in plain if name in data}
    field, value, new_name = listed
    items = data.get(field)
    if isinstance(items, list) and all(isinstance(one, dict) for one in items):
        moved[new_name] = {str(one.get("name")): one.get(value) for one in items}
    elif items is not None:
        moved[new_name] = items
    rest = {name: one for name, one in data.items() if name not in (*plain, field, "uuid")}
    return rest | {"spec": moved}
