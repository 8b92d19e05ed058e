"""What all kinds share: metadata, status, and the rules for names.

Fields are camelCase in documents and snake_case in Python. Models are frozen: a changed resource is
a new one, made with `model_copy`. An unknown field is refused.
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
"""Annotation of the namespace INFRA_NAMESPACE: the full name of the address space that connections
enter which name none. Empty: there is none."""
"""Where kinds of the service administrator are, if their documents do not say."""

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


_NOT_KEPT: set[str] = set()
"""What every piece has in the place of the names of the fields it was given."""


class Model(BaseModel):
    """A frozen piece of a document."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        extra="forbid",
        frozen=True,
        # What is never parsed is never compiled, and its docstrings are read where they are shown.
        defer_build=True,
    )

    def model_post_init(self, _context: object) -> None:
        """Forget which fields were given: nobody asks, and to keep a set of names for each piece
        would be a third of the memory of ten thousand resources."""
        object.__setattr__(self, "__pydantic_fields_set__", _NOT_KEPT)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return the piece with some fields replaced, which are not validated. What stays is
        shared, being frozen; `deep` copies that too."""
        if deep:
            return super().model_copy(update=update, deep=True)
        copied = type(self).__new__(type(self))
        object.__setattr__(copied, "__dict__", {**self.__dict__, **(update or {})})
        object.__setattr__(copied, "__pydantic_fields_set__", _NOT_KEPT)
        object.__setattr__(copied, "__pydantic_extra__", None)
        object.__setattr__(copied, "__pydantic_private__", None)
        return copied

    def document(self) -> dict[str, Any]:
        """Return the piece as plain data with its camelCase names; unset fields are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


_Piece = TypeVar("_Piece", bound=Model)


def filled(piece: _Piece, default: _Piece) -> _Piece:
    """Return a piece with the values of another one where it has none."""
    names = type(piece).model_fields
    missing = {name: getattr(default, name) for name in names if getattr(piece, name) is None}
    return piece.model_copy(update=missing)


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


_LABEL_NAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
ANNOTATIONS_BYTES_MAX = 256 * 1024
"""Bytes of all annotations of a resource together, as in Kubernetes."""

FINALIZERS_MAX = 32
"""Finalizers of one resource."""


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
        raise ValueError(f"must have at most {ANNOTATIONS_BYTES_MAX} bytes together")
    return value


class OwnerReference(Model):
    """A resource that this one belongs to, for the owner's own use: nothing is deleted by it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(Model):
    """Who a resource is. The server sets uid, generation, resourceVersion and all timestamps."""

    name: str
    """Name of the resource, unique among its kind in its namespace."""

    generate_name: str | None = None
    """What a new resource without a name is named after; five letters are added."""

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

    deletion_timestamp: str | None = None
    """When it was asked to go. It goes once it has no finalizers."""

    deletion_grace_period_seconds: int | None = None
    """Always 0: nothing waits for a time."""

    labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default_factory=dict)
    """Marks that selectors can ask for."""

    annotations: Annotated[dict[str, str], AfterValidator(_annotations)] = Field(
        default_factory=dict
    )
    """Remarks for the owner's own use."""

    finalizers: Annotated[
        tuple[Annotated[str, AfterValidator(_qualified)], ...], Field(max_length=FINALIZERS_MAX)
    ] = ()
    """Who has something to do before it goes, and takes itself off the list then."""

    owner_references: tuple[OwnerReference, ...] = ()
    """What it belongs to, for the owner's own use."""

    managed_fields: tuple[dict[str, Any], ...] = Field(default=(), repr=False)
    """Who has set which fields. Written by the server."""


class AdminMetadata(Metadata):
    """Metadata of what the service administrator declares."""

    name: Annotated[str, AfterValidator(dotted_name)]
    """Name, one through all namespaces."""

    namespace: Label = INFRA_NAMESPACE
    """Namespace it lives in. It counts wherever it is."""


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
    observed_generation: int | None = None
    """The generation of spec that all this is about."""


class Column(NamedTuple):
    """One column of the table in which clients show resources of a kind."""

    name: str
    path: str
    """Where its value is: names from the top, with dots between."""

    type: str = "string"
    """string, integer, boolean or date; a date is shown as the time that has passed since."""

    priority: int = 0
    """Above 0 it is shown only where there is room: `kubectl get -o wide`."""


AGE = Column("Age", "metadata.creationTimestamp", "date")


class Resource(Model):
    """One thing that the API knows."""

    plural: ClassVar[str]
    """The kind as it stands in HTTP paths."""

    short_names: ClassVar[tuple[str, ...]]
    """What people may type for it."""

    categories: ClassVar[tuple[str, ...]] = ()
    """What people may type for it and for other kinds together."""

    namespaced: ClassVar[bool]
    """Whether it lives in a namespace."""

    columns: ClassVar[tuple[Column, ...]] = (AGE,)
    """How it is shown in a table, after its name."""

    live_columns: ClassVar[tuple[Column, ...]] = ()
    """Columns of a table for live figures, before its last one; paths begin in the figures."""

    selectable: ClassVar[tuple[str, ...]] = ()
    """Paths that a field selector may name, beside the name and the namespace."""

    read_only: ClassVar[bool] = False
    """Whether the platform alone makes them."""

    unique: ClassVar[bool]
    """Whether a name is one thing through all namespaces."""

    write_only: ClassVar[tuple[str, ...]] = ()
    """Paths that a request may have and that are never stored or shown."""

    api_versions: ClassVar[tuple[str, ...]]
    """What a document may say; it is served under each, and the first one is stored."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Take the names of the kind, where the class is that of one."""
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

    @property
    def is_complete(self) -> bool:
        """Whether it has all that admission fills in, and nothing that admission takes out."""
        return True

    @property
    def is_terminating(self) -> bool:
        """Whether it was asked to go and only its finalizers keep it."""
        return self.metadata.deletion_timestamp is not None

    @classmethod
    def present_form(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return a document that is written in an older form of the kind in the present one."""
        return data

    def with_metadata(self, **changes: Any) -> Self:
        """Return the resource with some metadata replaced."""
        return self.model_copy(update={"metadata": self.metadata.model_copy(update=changes)})

    def with_status_of(self, _other: "Resource | None") -> Self:
        """Return the resource with the status another one has; with None, that of a new one."""
        return self

    def content(self) -> tuple[object, ...]:
        """What counts as a new generation when it changes: all but metadata and status."""
        fields = [name for name in type(self).model_fields if name not in ("metadata", "status")]
        return tuple(getattr(self, name) for name in fields)

    def public(self) -> Self:
        """Return the resource as clients may see it: without secrets."""
        return self

    def document(self) -> dict[str, Any]:
        """Return the resource as plain data; of metadata, what says nothing is left out."""
        data = super().document()
        metadata = data["metadata"]
        data["metadata"] = {name: one for name, one in metadata.items() if one not in ({}, [], "")}
        return data

    def faults(self) -> list[Fault]:
        """Return what is wrong with fields that are each right by themselves."""
        return []

    def refused_changes(self, _before: Self) -> list[Fault]:
        """Return the faults of changing `before` into this."""
        return []


class Declared(Resource):
    """One declared thing: what is wanted (`spec`) and what is so (`status`)."""

    immutable: ClassVar[tuple[str, ...]] = ()
    """Fields of spec, as named in Python and in documents alike, that cannot change."""

    categories: ClassVar[tuple[str, ...]] = ("enmasse",)

    spec: Model
    status: Status = Status()

    def with_status(self, status: Status) -> Self:
        """Return the resource with another status."""
        return self.model_copy(update={"status": status})

    def with_status_of(self, other: Resource | None) -> Self:
        """Return the resource with the status another one has; with None, that of a new one."""
        if isinstance(other, Declared):
            return self.with_status(other.status)
        return self.with_status(type(self).model_fields["status"].default)

    def refused_changes(self, before: Self) -> list[Fault]:
        """Return the faults of changing `before` into this."""
        return [
            cannot_change(f"spec.{name}", getattr(before.spec, name))
            for name in self.immutable
            if getattr(self.spec, name) != getattr(before.spec, name)
        ]


class ToldStatus(Status):
    """Status of what the service administrator declares."""

    message: str | None = None
    """What it waits for: `messages` as one text, where the original's clients look for it."""


class Administered(Declared):
    """One thing that the service administrator declares."""

    metadata: AdminMetadata
    status: ToldStatus = ToldStatus()

    def with_status(self, status: Status) -> Self:
        """Return the resource with another status, its messages as one text too."""
        message = "; ".join(status.messages) or None
        return super().with_status(status.model_copy(update={"message": message}))


def cannot_change(field: str, value: object) -> Fault:
    """Return the fault of changing a field that had a value for good."""
    return Fault(field, f"cannot change (it is {value!r}); delete the resource and create it anew")
