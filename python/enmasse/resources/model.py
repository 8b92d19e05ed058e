"""Parts shared by all kinds: metadata, status, and rules for names.

Fields are camelCase in documents and snake_case in Python. Models are frozen: a changed resource is
a new one, made with `model_copy`. Unknown fields are refused.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from enmasse.base.errors import Fault
from enmasse.base.kinds import API_VERSION, KINDS

DEFAULT_NAMESPACE = "default"
INFRA_NAMESPACE = "enmasse-infra"

DEFAULT_SPACE_ANNOTATION = "enmasse.io/default-space"
"""Annotation of the namespace INFRA_NAMESPACE: full name of the default address space, for
connections that name none. Empty: no default.
"""
"""Default namespace of service administrators' kinds."""

NAME_LENGTH_MAX = 253
"""Maximum length of a resource name, as in Kubernetes."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Key(NamedTuple):
    """Identifies a resource at one time; its uid is the permanent identity."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


_EMPTY: set[str] = set()
"""Shared empty set in place of `model_fields_set`."""


class Model(BaseModel):
    """A frozen part of a document."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        extra="forbid",
        frozen=True,
        # Types that are never parsed are not compiled; their docstrings are read on demand.
        defer_build=True,
    )

    def model_post_init(self, _context: object) -> None:
        """Discard the set of given fields: it is unused, and one set per part would be a third of
        the memory of ten thousand resources.
        """
        object.__setattr__(self, "__pydantic_fields_set__", _EMPTY)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return the part with some fields replaced, without validation. Unchanged fields are
        shared; `deep` copies them.
        """
        if deep:
            return super().model_copy(update=update, deep=True)
        copied = type(self).__new__(type(self))
        object.__setattr__(copied, "__dict__", {**self.__dict__, **(update or {})})
        object.__setattr__(copied, "__pydantic_fields_set__", _EMPTY)
        object.__setattr__(copied, "__pydantic_extra__", None)
        object.__setattr__(copied, "__pydantic_private__", None)
        return copied

    def document(self) -> dict[str, Any]:
        """Return the part as plain data with camelCase names, without unset fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


_Piece = TypeVar("_Piece", bound=Model)


def filled(piece: _Piece, default: _Piece) -> _Piece:
    """Return a part with missing values filled in from another one."""
    names = type(piece).model_fields
    missing = {name: getattr(default, name) for name in names if getattr(piece, name) is None}
    return piece.model_copy(update=missing)


def label(value: str) -> str:
    """Validate a name of one part: a namespace, an address space, one part of a dotted name."""
    if not _LABEL.fullmatch(value):
        raise ValueError(
            f"{value!r} is invalid: use 1 to 63 lower-case letters, digits and"
            " hyphens, beginning and ending with a letter or digit"
        )
    return value


def dotted_name(value: str) -> str:
    """Validate a name of dotted parts."""
    if len(value) > NAME_LENGTH_MAX:
        raise ValueError(f"has {len(value)} characters; at most {NAME_LENGTH_MAX} are allowed")
    for part in value.split("."):
        label(part)
    return value


def name_in_space(value: str) -> str:
    """Validate `<space>.<rest>`, the name of a resource in an address space."""
    if "." not in value:
        raise ValueError(
            f"{value!r} contains no address space: write <space>.<name>, for"
            f" example default.{value or 'orders'}"
        )
    return dotted_name(value)


Label = Annotated[str, AfterValidator(label)]


_LABEL_NAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
ANNOTATIONS_BYTES_MAX = 256 * 1024
"""Maximum total bytes of annotations of a resource, as in Kubernetes."""

FINALIZERS_MAX = 32
"""Maximum finalizers of a resource."""


def _qualified(value: str) -> str:
    prefix, _, name = value.rpartition("/")
    if not _LABEL_NAME.fullmatch(name) or ("/" in value and not prefix):
        raise ValueError(
            f"{value!r} is not allowed as a key: use at most 63 letters, digits and - _ .,"
            " beginning and ending with a letter or digit, after a DNS name and `/` if you like"
        )
    if prefix:
        dotted_name(prefix)
    return value


def _labels(value: dict[str, str]) -> dict[str, str]:
    for key, text in value.items():
        _qualified(key)
        if text and not _LABEL_NAME.fullmatch(text):
            raise ValueError(
                f"{text!r} is not allowed as the value of {key}: use at most 63 letters, digits and"
                " - _ ., beginning and ending with a letter or digit"
            )
    return value


def _annotations(value: dict[str, str]) -> dict[str, str]:
    for key in value:
        _qualified(key.lower())
    if sum(len(key.encode()) + len(text.encode()) for key, text in value.items()) > (
        ANNOTATIONS_BYTES_MAX
    ):
        raise ValueError(f"must have at most {ANNOTATIONS_BYTES_MAX} bytes in total")
    return value


class OwnerReference(Model):
    """A resource that this one belongs to, for information: nothing is deleted by it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(Model):
    """Identity of a resource. The server sets uid, generation, resourceVersion and timestamps."""

    name: str
    """Name, unique per kind and namespace."""

    generate_name: str | None = None
    """Prefix of a generated name; five letters are appended."""

    namespace: Label = DEFAULT_NAMESPACE
    """Namespace of the resource."""

    uid: str | None = None
    """Permanent identity: a resource created again has another one."""

    generation: int | None = None
    """Counts changes of the spec."""

    resource_version: str | None = None
    """Changes with every write. In a request it is a precondition."""

    creation_timestamp: str | None = None
    """Creation time."""

    deletion_timestamp: str | None = None
    """Time of the deletion request. The resource is removed once it has no finalizers."""

    deletion_grace_period_seconds: int | None = None
    """Always 0: there is no grace period."""

    labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default_factory=dict)
    """Labels for selectors."""

    annotations: Annotated[dict[str, str], AfterValidator(_annotations)] = Field(
        default_factory=dict
    )
    """Annotations for clients."""

    finalizers: Annotated[
        tuple[Annotated[str, AfterValidator(_qualified)], ...], Field(max_length=FINALIZERS_MAX)
    ] = ()
    """Parties that must act before the resource is removed; each then removes its entry."""

    owner_references: tuple[OwnerReference, ...] = ()
    """Owners, for information."""

    managed_fields: tuple[dict[str, Any], ...] = Field(default=(), repr=False)
    """Field managers and the fields they own. Set by the server."""


class AdminMetadata(Metadata):
    """Metadata of a service administrator's resource."""

    name: Annotated[str, AfterValidator(dotted_name)]
    """Name, unique across all namespaces."""

    namespace: Label = INFRA_NAMESPACE
    """Namespace of the resource. It applies everywhere."""


Phase = Literal["Pending", "Configuring", "Active", "Terminating", "Failed"]


class Condition(Model):
    """One aspect of the observed state, with reason and time of the last transition."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""
    last_transition_time: str
    observed_generation: int


class Status(Model):
    """Observed state. Clients read it; only the platform writes it."""

    is_ready: bool = False
    phase: Phase = "Pending"
    messages: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    """The generation of the spec that this status describes."""


class Column(NamedTuple):
    """A column of the table that clients show."""

    name: str
    path: str
    """Path of the value: names separated by dots."""

    type: str = "string"
    """string, integer, boolean or date; a date is shown as elapsed time."""

    priority: int = 0
    """Above 0 it is shown by `kubectl get -o wide` only."""


SPACE = "metadata.space"
"""Path of the address space in field selectors of kinds whose names begin with it."""

AGE = Column("Age", "metadata.creationTimestamp", "date")


class Resource(Model):
    """A kind of the API."""

    plural: ClassVar[str]
    """The plural in HTTP paths."""

    short_names: ClassVar[tuple[str, ...]]
    """Short names."""

    categories: ClassVar[tuple[str, ...]] = ()
    """Categories: short names shared with other kinds."""

    namespaced: ClassVar[bool]
    """Whether it is namespaced."""

    columns: ClassVar[tuple[Column, ...]] = (AGE,)
    """Table columns after the name."""

    live_columns: ClassVar[tuple[Column, ...]] = ()
    """Table columns for statistics, before the last one; paths begin in the statistics."""

    selectable: ClassVar[tuple[str, ...]] = ()
    """Paths of field selectors, besides name and namespace."""

    read_only: ClassVar[bool] = False
    """Whether only the platform creates it."""

    unique: ClassVar[bool]
    """Whether a name is unique across all namespaces."""

    write_only: ClassVar[tuple[str, ...]] = ()
    """Write-only paths: accepted in requests, never stored or shown."""

    api_versions: ClassVar[tuple[str, ...]]
    """The API versions that serve it; the first one is stored."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Take the names of the kind from the class of a kind."""
        super().__init_subclass__(**arguments)
        if (kind := KINDS.get(cls.__name__)) is not None:
            cls.plural, cls.short_names, cls.api_versions = (
                kind.plural,
                kind.short_names,
                kind.api_versions,
            )
            cls.namespaced, cls.unique = kind.namespaced, kind.unique

    api_version: str = API_VERSION
    kind: str
    metadata: Metadata

    @property
    def key(self) -> Key:
        """Its key in a store."""
        return Key(self.kind, self.metadata.namespace, self.metadata.name)

    @property
    def space(self) -> str:
        """Name of its address space, or of the space itself."""
        return self.metadata.name.partition(".")[0]

    @property
    def needs_others(self) -> int:
        """Order among resources of its kind: after those it references."""
        return 0

    @property
    def is_complete(self) -> bool:
        """Whether it is complete: it has everything that admission adds and nothing that admission
        removes.
        """
        return True

    @property
    def is_terminating(self) -> bool:
        """Whether its deletion was requested and only finalizers keep it."""
        return self.metadata.deletion_timestamp is not None

    @classmethod
    def present_form(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Convert a document of an older form."""
        return data

    def with_metadata(self, **changes: Any) -> Self:
        """Return the resource with changed metadata."""
        return self.model_copy(update={"metadata": self.metadata.model_copy(update=changes)})

    def with_status_of(self, _other: "Resource | None") -> Self:
        """Return the resource with the status of another one; None: that of a new one."""
        return self

    def content(self) -> tuple[object, ...]:
        """The fields whose change increments the generation: all but metadata and status."""
        fields = [name for name in type(self).model_fields if name not in ("metadata", "status")]
        return tuple(getattr(self, name) for name in fields)

    def public(self) -> Self:
        """Return the resource for clients, without secrets."""
        return self

    def document(self) -> dict[str, Any]:
        """Return the resource as plain data, without empty metadata."""
        data = super().document()
        metadata = data["metadata"]
        data["metadata"] = {name: one for name, one in metadata.items() if one not in ({}, [], "")}
        return data

    def faults(self) -> list[Fault]:
        """Return errors of combinations of valid fields."""
        return []

    def refused_changes(self, _before: Self) -> list[Fault]:
        """Return errors of changing `before` into this."""
        return []


class Declared(Resource):
    """A declared resource: desired state (`spec`) and observed state (`status`)."""

    immutable: ClassVar[tuple[str, ...]] = ()
    """Immutable fields of the spec; their names are equal in Python and documents."""

    categories: ClassVar[tuple[str, ...]] = ("enmasse",)

    spec: Model
    status: Status = Status()

    def with_status(self, status: Status) -> Self:
        """Return the resource with another status."""
        return self.model_copy(update={"status": status})

    def with_status_of(self, other: Resource | None) -> Self:
        """Return the resource with the status of another one; None: that of a new one."""
        if isinstance(other, Declared):
            return self.with_status(other.status)
        return self.with_status(type(self).model_fields["status"].default)

    def refused_changes(self, before: Self) -> list[Fault]:
        """Return errors of changing `before` into this."""
        return [
            cannot_change(f"spec.{name}", getattr(before.spec, name))
            for name in self.immutable
            if getattr(self.spec, name) != getattr(before.spec, name)
        ]


class ReportedStatus(Status):
    """Status of a kind whose original has one message."""

    message: str | None = None
    """The pending reason: `messages` as one text, where clients of the original read it."""


class Reported(Declared):
    """A resource whose status has its messages as one text too."""

    status: ReportedStatus = ReportedStatus()

    def with_status(self, status: Status) -> Self:
        """Return the resource with another status, with its messages as one text too."""
        message = "; ".join(status.messages) or None
        return super().with_status(status.model_copy(update={"message": message}))


class Administered(Reported):
    """A resource of a service administrator."""

    metadata: AdminMetadata


def cannot_change(field: str, value: object) -> Fault:
    """Return the error of changing an immutable field that has a value."""
    return Fault(field, f"cannot change (it is {value!r}); delete the resource and create it again")
