"""What all kinds share: metadata, status, and the rules for names.

Fields are camelCase in documents and snake_case in Python. Models are frozen: a changed resource is
a new one, made with `model_copy`. An unknown field is refused.
"""

import re
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from enmasse.base.errors import Fault

API_VERSION = "enmasse.io/v1beta1"
DEFAULT_NAMESPACE = "default"
NAME_LENGTH_MAX = 253
"""Characters in a resource name, as in Kubernetes."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Key(NamedTuple):
    """What names one resource at one time; a uid names it for ever."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Model(BaseModel):
    """A frozen piece of a document."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    def document(self) -> dict[str, Any]:
        """Return the piece as plain data with its camelCase names; unset fields are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def label(value: str) -> str:
    """Check a name of one part: a namespace, an address space, one part of a dotted name."""
    if not _LABEL.fullmatch(value):
        raise ValueError(
            f"{value!r} is not allowed: use 1 to 63 lower-case letters, digits and hyphens,"
            " beginning and ending with a letter or digit"
        )
    return value


def dotted_name(value: str) -> str:
    """Check a name of parts divided by dots, each a name of one part."""
    if len(value) > NAME_LENGTH_MAX:
        raise ValueError(f"has {len(value)} characters; at most {NAME_LENGTH_MAX} are allowed")
    for part in value.split("."):
        label(part)
    return value


def name_in_space(value: str) -> str:
    """Check `<space>.<rest>`, the name of whatever belongs to an address space."""
    if "." not in value:
        raise ValueError(
            f"{value!r} names no address space: write <space>.<name>,"
            f" for example default.{value or 'orders'}"
        )
    return dotted_name(value)


Label = Annotated[str, AfterValidator(label)]


class Metadata(Model):
    """Who a resource is. The server sets uid, generation, resourceVersion and creationTimestamp."""

    name: str
    """Name of the resource, unique among its kind in its namespace."""

    namespace: Label = DEFAULT_NAMESPACE
    """Namespace the resource lives in."""

    uid: str | None = None
    """Identity for ever: one deleted and made again has another."""

    generation: int | None = None
    """Counts the changes of spec."""

    resource_version: str | None = None
    """Changes with every write. In a request it says which state the request is based on."""

    creation_timestamp: str | None = None
    """When the resource was made."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Marks for the owner's own use."""

    annotations: dict[str, str] = Field(default_factory=dict)
    """Remarks for the owner's own use."""


Phase = Literal["Pending", "Configuring", "Active", "Terminating", "Failed"]


class Condition(Model):
    """One thing that is or is not so, why, and since when."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""
    last_transition_time: str
    observed_generation: int


class Status(Model):
    """What the control plane has found out. Clients read it and never write it."""

    is_ready: bool = False
    phase: Phase = "Pending"
    messages: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Resource(Model):
    """One declared thing: what is wanted (`spec`) and what is so (`status`)."""

    plural: ClassVar[str]
    """The kind as it stands in HTTP paths."""

    immutable: ClassVar[tuple[str, ...]] = ()
    """Fields of spec, as named in Python and in documents alike, that cannot change."""

    api_versions: ClassVar[tuple[str, ...]] = (API_VERSION,)
    """What a document may say; the first is what the server answers."""

    api_version: str = API_VERSION
    kind: str
    metadata: Metadata
    spec: Model
    status: Status = Status()

    @property
    def key(self) -> Key:
        """The resource's key in a store."""
        return Key(self.kind, self.metadata.namespace, self.metadata.name)

    @property
    def space(self) -> str:
        """Name of the address space it belongs to, or is."""
        return self.metadata.name.partition(".")[0]

    @property
    def needs_others(self) -> int:
        """How late it comes among resources of its kind: after those it refers to."""
        return 0

    def with_metadata(self, **changes: Any) -> Self:
        """Return the resource with some metadata replaced."""
        return self.model_copy(update={"metadata": self.metadata.model_copy(update=changes)})

    def with_status(self, status: Status) -> Self:
        """Return the resource with another status."""
        return self.model_copy(update={"status": status})

    def public(self) -> Self:
        """Return the resource as clients may see it: without secrets."""
        return self

    def faults(self) -> list[Fault]:
        """Return what is wrong with fields that are each right by themselves."""
        return []

    def refused_changes(self, before: Self) -> list[Fault]:
        """Return the faults of changing `before` into this."""
        return [
            cannot_change(f"spec.{name}", getattr(before.spec, name))
            for name in self.immutable
            if getattr(self.spec, name) != getattr(before.spec, name)
        ]


def cannot_change(field: str, value: object) -> Fault:
    """Return the fault of changing a field that had a value for good."""
    return Fault(field, f"cannot change (it is {value!r}); delete the resource and create it anew")
