"""AddressPlan: what an address of one type counts for in a quota, and bounds of its messages."""

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

"""Both take both forms: fields below `spec`, and the older one without."""

PARTITIONS_MAX = 1000
DISPLAYED = ("displayName", "displayOrder", "shortDescription", "longDescription")

PLAN_COLUMNS = (
    Column("Ready", "status.isReady", "boolean"),
    Column("Phase", "status.phase"),
    Column("Status", "status.message", priority=1),
    AGE,
)


class Display(Model):
    """How a plan is shown to those who choose one."""

    display_name: str | None = None
    """What people call it."""

    display_order: int | None = None
    """Its place in a list, the lowest first; 0 if left out."""

    short_description: str | None = None
    """One line."""

    long_description: str | None = None
    """A few sentences."""


def _known_type(value: str) -> str:
    if value not in TYPES:
        raise ValueError(f"{value!r} is not an address type; there are {', '.join(TYPES)}")
    return value


class AddressPlanSpec(Display):
    """What a plan is."""

    address_type: Annotated[str, AfterValidator(_known_type)]
    """The type of address it is for."""

    resources: PlanResources | None = None
    """Credit that an address counts for; not needed for deadletter."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=PARTITIONS_MAX)] | None = None
    """Brokers at least that a queue's credit is divided over; 1 if left out."""

    message_ttl: MessageTtl | None = None
    """How long messages live; of the address and the plan the narrower holds."""

    message_redelivery: MessageRedelivery | None = None
    """How often a message is tried, as far as the address does not say it."""

    limits: Limits | None = None
    """Bounds; of the address and the plan the smaller holds."""


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
        """Return a document whose fields are not below `spec` with them there."""
        return below_spec(
            data, (*DISPLAYED, "addressType"), ("requiredResources", "credit", "resources")
        )

    @property
    def order(self) -> tuple[float, str]:
        """Its place among plans; those that name none come last."""
        shown = self.spec.display_order
        return math.inf if shown is None else shown, self.metadata.name

    def faults(self) -> list[Fault]:
        """Return what an address of the type could not have."""
        spec, type_ = self.spec, self.spec.address_type
        found = []
        credit = spec.resources or PlanResources()
        if type_ != "deadletter" and credit.router is None and credit.broker is None:
            found.append(Fault("spec.resources", "needs router, broker or both"))
        if spec.partitions is not None and type_ != "queue":
            found.append(Fault("spec.partitions", f"is for plans of queues, not of {type_}"))
        limits = spec.limits or Limits()
        given = {
            "messageTtl": spec.message_ttl,
            "messageRedelivery": spec.message_redelivery,
            **{f"limits.{name}": one for name, one in limits.document().items()},
        }
        found += [
            Fault(f"spec.{name}", f"an address of type {type_} cannot have it")
            for name, one in given.items()
            if one is not None and type_ not in ALLOWED[name]
        ]
        if limits.on_full and limits.messages is None and limits.bytes is None:
            found.append(Fault("spec.limits.onFull", "needs limits.messages or limits.bytes"))
        return [*found, *refusing_dead_letter(type_, limits.on_full)]


def below_spec(
    data: dict[str, Any], plain: tuple[str, ...], listed: tuple[str, str, str]
) -> dict[str, Any]:
    """Return a document of the older form, without `spec`, in the present one.

    `plain` are the fields that move as they are. `listed` names a list of `{name, VALUE}`, VALUE,
    and the mapping that the list becomes.
    """
    if "spec" in data or not any(name in data for name in (*plain, listed[0])):
        return data
    moved = {name: data[name] for name in plain if name in data}
    field, value, becomes = listed
    items = data.get(field)
    if isinstance(items, list) and all(isinstance(one, dict) for one in items):
        moved[becomes] = {str(one.get("name")): one.get(value) for one in items}
    elif items is not None:
        moved[becomes] = items
    rest = {name: one for name, one in data.items() if name not in (*plain, field, "uuid")}
    return rest | {"spec": moved}
