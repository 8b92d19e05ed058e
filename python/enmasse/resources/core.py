"""The Kubernetes core kinds that clients need: Namespace, ConfigMap, Secret, Service, Event.

They have no controller: only the declared data counts.
"""

import base64
import binascii
import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from enmasse.base.errors import Fault
from enmasse.base.kinds import CORE_VERSION
from enmasse.resources.api_token import TOKEN_TYPE, token_faults
from enmasse.resources.model import AGE, Column, Label, Metadata, Model, Resource, dotted_name

DATA_BYTES_MAX = 1 << 20
"""Maximum bytes of all values of a ConfigMap or a Secret, as in Kubernetes."""

_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class NamespaceMetadata(Metadata):
    """Metadata of a namespace, which is not namespaced itself."""

    name: Label
    """Name of the namespace: one part, without dots."""

    namespace: Literal[""] = ""
    """Always empty."""


class NamespaceStatus(Model):
    """Phase of a namespace."""

    phase: Literal["Active"] = "Active"
    """Always active."""


class Namespace(Resource):
    """A scope for resource names. The first resource in a namespace creates it."""

    columns: ClassVar[tuple[Column, ...]] = (Column("Status", "status.phase"), AGE)

    api_version: str = CORE_VERSION
    kind: Literal["Namespace"] = Field(default="Namespace")
    metadata: NamespaceMetadata
    spec: dict[str, Any] = Field(default_factory=dict)
    status: NamespaceStatus = NamespaceStatus()


class NamedMetadata(Metadata):
    """Metadata of a resource with a DNS name."""

    name: Annotated[str, AfterValidator(dotted_name)]
    """Parts separated by dots."""


class ConfigMap(Resource):
    """Texts by name."""

    api_version: str = CORE_VERSION
    kind: Literal["ConfigMap"] = Field(default="ConfigMap")
    metadata: NamedMetadata
    immutable: bool | None = None
    """Whether the data is immutable."""

    data: dict[str, str] = Field(default_factory=dict)
    """Texts by name."""

    binary_data: dict[str, str] = Field(default_factory=dict)
    """Bytes by name, in base64."""

    def faults(self) -> list[Fault]:
        """Return errors of names and values."""
        both = sorted(self.data.keys() & self.binary_data.keys())
        return [
            *_data_faults("data", self.data, encoded=False),
            *_data_faults("binaryData", self.binary_data, encoded=True),
            *(Fault(f"binaryData.{name}", "is also in data; keep one") for name in both),
        ]

    def refused_changes(self, before: Self) -> list[Fault]:
        """Return errors of changing `before` into this."""
        same = (self.data, self.binary_data) == (before.data, before.binary_data)
        return _immutable_faults(before.immutable, self.immutable, same=same)


class Secret(Resource):
    """Confidential bytes by name."""

    columns: ClassVar[tuple[Column, ...]] = (Column("Type", "type"), AGE)
    selectable: ClassVar[tuple[str, ...]] = ("type",)
    write_only: ClassVar[tuple[str, ...]] = ("stringData",)

    api_version: str = CORE_VERSION
    kind: Literal["Secret"] = Field(default="Secret")
    metadata: NamedMetadata
    type: str = "Opaque"
    """Type of the Secret: `kubernetes.io/tls` and the like, `enmasse.io/token`, or `Opaque`."""

    immutable: bool | None = None
    """Whether the data is immutable."""

    data: dict[str, str] = Field(default_factory=dict, repr=False)
    """Bytes by name, in base64."""

    string_data: dict[str, str] = Field(default_factory=dict, repr=False, exclude=True)
    """Texts by name. Write-only: they become data."""

    @model_validator(mode="before")
    @classmethod
    def _move_texts(cls, value: Any) -> Any:
        """Move the write-only `stringData` into `data`."""
        if not isinstance(value, dict) or not isinstance(value.get("stringData"), dict):
            return value
        rest = {name: one for name, one in value.items() if name != "stringData"}
        texts = {
            name: base64.b64encode(one.encode()).decode() if isinstance(one, str) else one
            for name, one in value["stringData"].items()
        }
        return rest | {"data": (rest.get("data") or {}) | texts}

    def text(self, name: str) -> str | None:
        """Return a text value; None if it is absent or not text."""
        try:
            return base64.b64decode(self.data[name]).decode()
        except (KeyError, ValueError):
            return None

    def faults(self) -> list[Fault]:
        """Return errors of names and values."""
        found = _data_faults("data", self.data, encoded=True)
        if found or self.type != TOKEN_TYPE:
            return found
        texts = {name: self.text(name) or "" for name in self.data}
        return token_faults(self.metadata.namespace, texts)

    def refused_changes(self, before: Self) -> list[Fault]:
        """Return errors of changing `before` into this."""
        found = _immutable_faults(before.immutable, self.immutable, same=self.data == before.data)
        if self.type != before.type:
            found.append(Fault("type", f"cannot change (it is {before.type!r})"))
        return found


class Service(Resource):
    """An exported endpoint under a service name. It routes nothing."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("Type", "spec.type"),
        Column("External-Name", "spec.externalName"),
        AGE,
    )

    api_version: str = CORE_VERSION
    kind: Literal["Service"] = Field(default="Service")
    metadata: NamedMetadata
    spec: dict[str, Any] = Field(default_factory=dict)
    """As in Kubernetes: `type: ExternalName`, `externalName`, `ports`."""


class ObjectReference(Model):
    """A reference to another resource."""

    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class EventSource(Model):
    """The reporter of an event."""

    component: str | None = None
    host: str | None = None


class Event(Resource):
    """An event of a resource."""

    read_only: ClassVar[bool] = True
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Last Seen", "lastTimestamp", "date"),
        Column("Type", "type"),
        Column("Reason", "reason"),
        Column("Kind", "involvedObject.kind"),
        Column("Object", "involvedObject.name"),
        Column("Message", "message"),
        Column("Count", "count", "integer", 1),
    )
    selectable: ClassVar[tuple[str, ...]] = (
        *(f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid")),
        *("involvedObject.apiVersion", "involvedObject.resourceVersion"),
        *("involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"),
    )

    api_version: str = CORE_VERSION
    kind: Literal["Event"] = Field(default="Event")
    metadata: NamedMetadata
    involved_object: ObjectReference
    """The resource of the event."""

    type: Literal["Normal", "Warning"] = "Normal"
    """Warning: a problem that needs attention."""

    reason: str = ""
    """Reason for programs, one word."""

    message: str = ""
    """Message for people."""

    source: EventSource = EventSource()
    """The reporter."""

    first_timestamp: str | None = None
    """Time of the first occurrence."""

    last_timestamp: str | None = None
    """Time of the last occurrence."""

    count: int = 1
    """Number of occurrences."""

    reporting_component: str = ""
    """The reporting controller."""

    reporting_instance: str = ""
    """The instance of the controller."""


def _data_faults(field: str, data: dict[str, str], *, encoded: bool) -> list[Fault]:
    found = [
        Fault(f"{field}.{name}", "is not a name: use at most 253 letters, digits and - _ .")
        for name in data
        if not _KEY.fullmatch(name)
    ]
    if encoded:
        found += [
            Fault(f"{field}.{name}", "must be base64")
            for name, one in data.items()
            if _is_malformed(one)
        ]
    if sum(len(one.encode()) for one in data.values()) > DATA_BYTES_MAX:
        found.append(Fault(field, f"must have at most {DATA_BYTES_MAX} bytes in total"))
    return found


def _is_malformed(value: str) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return True
    return False


def _immutable_faults(before: bool | None, now: bool | None, *, same: bool) -> list[Fault]:
    if not before:
        return []
    found = (
        []
        if now
        else [Fault("immutable", "cannot be unset; delete the resource and create it again")]
    )
    if not same:
        found.append(Fault("data", "is immutable; delete the resource and create it again"))
    return found
