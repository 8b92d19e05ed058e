"""MessagingUser: a user of an address space, with rights.

Passwords are write-only: before a user is stored, `enmasse.auth` replaces the password by SCRAM
verifiers, and `public()` removes those from everything that clients can read.
"""

import base64
import binascii
import json
import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from enmasse.base.errors import Fault
from enmasse.resources.model import (
    AGE,
    SPACE,
    Column,
    Metadata,
    Model,
    Reported,
    dotted_name,
    name_in_space,
)

STORED = "stored"
"""Validation context under which a document may contain server-managed fields."""

PASSWORD_BYTES_MAX = 1024
"""Maximum length of a password; it bounds the cost of hashing."""

PATTERN_LEVELS_MAX = 64
"""Maximum levels of a pattern; matching takes time proportional to them."""

PATTERNS_MAX = 1000
"""Maximum addresses and patterns of one user, over all authorizations."""

WILDCARDS_MAX = 100
"""Maximum patterns with wildcards: the node tries each one for a link, and for a message to the
anonymous terminus.
"""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which kubectl stores a copy of the document, password included."""

Operation = Literal["send", "recv", "view", "manage", "create"]

_USERNAME = re.compile(r"[a-z0-9]([a-z0-9_@.:-]*[a-z0-9])?")
_AUTHENTICATION_TYPES = ("password", "serviceaccount", "federated")


def _username(value: str) -> str:
    if len(value) > 255 or not _USERNAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is invalid: use at most 255 lower-case letters, digits"
            " and _ @ . : -, beginning and ending with a letter or digit"
        )
    return value


def _known_type(value: str) -> str:
    if value not in _AUTHENTICATION_TYPES:
        known = ", ".join(_AUTHENTICATION_TYPES)
        raise ValueError(f"{value!r} is not a type of authentication; there are {known}")
    return value


def _password(value: str) -> str:
    try:
        secret = base64.b64decode(value, validate=True)
        secret.decode()
    except (binascii.Error, UnicodeDecodeError):
        # The value itself is never repeated: this text reaches logs and terminals.
        raise ValueError(
            "must be the base64 of the password's UTF-8 text, as `printf %s PASSWORD | base64`"
            " prints it"
        ) from None
    if not 0 < len(secret) <= PASSWORD_BYTES_MAX:
        raise ValueError(f"must encode 1 to {PASSWORD_BYTES_MAX} bytes")
    return value


def pattern_of(value: str) -> str:
    """Validate an address pattern.

    Raises: ValueError if it is malformed.
    """
    levels = value.split("/")
    if not value or len(levels) > PATTERN_LEVELS_MAX:
        raise ValueError(
            f"{value!r} is not a pattern: it must have 1 to {PATTERN_LEVELS_MAX} levels"
        )
    *above, last = levels
    if any("*" in level and level != "*" for level in above) or "*" in last.removesuffix("*"):
        raise ValueError(
            f"{value!r} is not a pattern: `*` must be a whole level, or end the"
            " pattern (`orders*` matches every name with that prefix)"
        )
    return value


def has_wildcard(pattern: str) -> bool:
    """Whether a pattern matches more than one name."""
    levels = pattern.split("/")
    return levels[-1].endswith("*") or any(level in ("+", "*", "#") for level in levels)


class Verifier(Model):
    """Stored form of a password for one hash (RFC 5802, 3). Binary parts are base64."""

    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
    salt: str
    iterations: int
    stored_key: str
    server_key: str


PASSWORD_KEY = "password"
"""Default key of the password in a Secret."""


class PasswordSecret(Model):
    """Reference to a Secret in the namespace of the user."""

    name: Annotated[str, AfterValidator(dotted_name)]
    key: Annotated[str, Field(min_length=1, max_length=253)] = PASSWORD_KEY
    """Key of the password."""


class PasswordAuthentication(Model):
    """How a user authenticates."""

    type: Annotated[str, AfterValidator(_known_type)]
    """`password`; `federated`: by token or client certificate, without a password;
    `serviceaccount`: stored but not implemented.
    """

    password: Annotated[str, AfterValidator(_password)] | None = Field(default=None, repr=False)
    """The password, base64. Write-only: never stored and never returned."""

    password_secret: PasswordSecret | None = None
    """Secret with the password, instead of `password`. Changes of the Secret apply at once; while
    it is missing, the user cannot log in.
    """

    provider: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Identity provider of a federated user. Stored without effect: the service of the space checks
    tokens, and `username` identifies the user.
    """

    federated_userid: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Id of the user at that provider. Stored without effect."""

    federated_username: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Name of the user at that provider. Stored without effect."""

    verifiers: tuple[Verifier, ...] = Field(default=(), repr=False)
    """Derived keys. Set by the server."""

    @field_validator("verifiers")
    @classmethod
    def _check_server_managed(
        cls, value: tuple[Verifier, ...], info: ValidationInfo
    ) -> tuple[Verifier, ...]:
        if value and not (info.context or {}).get(STORED):
            raise ValueError("is set by the server; set password instead")
        return value


class Authorization(Model):
    """Operations on addresses."""

    addresses: tuple[Annotated[str, AfterValidator(pattern_of)], ...] = ()
    """Names or patterns: `*` or `+` is one level, `#` any number, `ord*` a prefix, `*` alone all.
    Absent: all.
    """

    operations: Annotated[tuple[Operation, ...], Field(min_length=1)]
    """Any of send, recv, create, view, manage. Create is the right to have an address created by a
    link, where the space allows that. View and manage apply to the whole space; manage has no
    effect.
    """


class MessagingUserMetadata(Metadata):
    """Metadata of a user."""

    name: Annotated[str, AfterValidator(name_in_space)]
    """`<space>.<user>`; the first part is the address space."""


class MessagingUserSpec(Model):
    """Specification of a user."""

    username: Annotated[str, AfterValidator(_username)]
    "User name for login."

    authentication: PasswordAuthentication
    """How the user authenticates: type and password."""

    authorization: tuple[Authorization, ...] = ()
    """Rights of the user. Absent: none."""


def without_readable_password(document: dict[str, Any]) -> dict[str, Any]:
    """Return plain data of a user without passwords, or the same data if it has none."""
    authentication = document.get("spec", {}).get("authentication", {})
    metadata = document["metadata"]
    annotations = metadata.get("annotations") or {}
    kept = _without_password(annotations)
    if "password" not in authentication and kept == annotations:
        return document
    rest = {name: one for name, one in authentication.items() if name != "password"}
    spec = document["spec"] | {"authentication": rest}
    return document | {"spec": spec, "metadata": metadata | {"annotations": kept}}


def _without_password(annotations: dict[str, str]) -> dict[str, str]:
    """Return annotations without the password in kubectl's copy; a malformed copy is removed."""
    if LAST_APPLIED not in annotations:
        return annotations
    kept = {name: text for name, text in annotations.items() if name != LAST_APPLIED}
    try:
        document = json.loads(annotations[LAST_APPLIED])
        authentication = document["spec"]["authentication"]
        if not authentication.keys() & {"password", "verifiers"}:
            return annotations
        authentication.pop("password", None)
        authentication.pop("verifiers", None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return kept
    return kept | {LAST_APPLIED: json.dumps(document, separators=(",", ":")) + "\n"}


class MessagingUser(Reported):
    """A declared user of one address space."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("Username", "spec.username"),
        Column("Type", "spec.authentication.type"),
        Column("Ready", "status.isReady", "boolean"),
        Column("Phase", "status.phase"),
        Column("Status", "status.messages"),
        AGE,
    )
    selectable: ClassVar[tuple[str, ...]] = (
        SPACE,
        *("spec.username", "status.phase", "status.isReady"),
    )
    write_only: ClassVar[tuple[str, ...]] = ("spec.authentication.password",)
    immutable: ClassVar[tuple[str, ...]] = ("username",)

    kind: Literal["MessagingUser"] = Field(default="MessagingUser")
    metadata: MessagingUserMetadata
    spec: MessagingUserSpec

    @property
    def is_complete(self) -> bool:
        """Whether it has the verifiers it needs, and no password."""
        authentication = self.spec.authentication
        needs_some = authentication.type == "password" and authentication.password_secret is None
        has_what_it_needs = bool(authentication.verifiers) or not needs_some
        return authentication.password is None and has_what_it_needs

    @property
    def is_service_account(self) -> bool:
        """Whether only a cluster could authenticate it."""
        return self.spec.authentication.type == "serviceaccount"

    @property
    def missing_secret(self) -> str | None:
        """Return the error of a Secret without a valid password; None if there is none."""
        secret = self.spec.authentication.password_secret
        if secret is None or self.spec.authentication.verifiers:
            return None
        return (
            f"Secret {secret.name!r} in namespace {self.metadata.namespace!r}"
            f" has no valid password in {secret.key!r}; the user cannot log in"
            " until it has one"
        )

    def with_verifiers(self, verifiers: tuple[Verifier, ...]) -> Self:
        """Return the user for storage, without its password, also in kubectl's copy."""
        authentication = self.spec.authentication.model_copy(
            update={"password": None, "verifiers": verifiers}
        )
        spec = self.spec.model_copy(update={"authentication": authentication})
        annotations = _without_password(self.metadata.annotations)
        return self.model_copy(update={"spec": spec}).with_metadata(annotations=annotations)

    def public(self) -> Self:
        """Return the user without verifiers, which would allow offline guessing."""
        return self.with_verifiers(())

    def faults(self) -> list[Fault]:
        """Return errors: an unusable password, or more addresses than the maximum."""
        found: list[Fault] = []
        authentication = self.spec.authentication
        given = {
            "password": authentication.password,
            "passwordSecret": authentication.password_secret,
        }
        fields = [name for name, value in given.items() if value is not None]
        if authentication.type != "password":
            message = f"is supported by type password only, not {authentication.type}; remove it"
            found += [Fault(f"spec.authentication.{name}", message) for name in fields]
        elif len(fields) > 1:
            message = "cannot be combined with password; keep one of the two"
            found.append(Fault("spec.authentication.passwordSecret", message))
        if authentication.type != "federated":
            message = f"is supported by type federated only, not {authentication.type}; remove it"
            found += [Fault(f"spec.authentication.{name}", message) for name in self.kept_fields]
        if (excess := self.excess()) is not None:
            found.append(Fault("spec.authorization", excess))
        return found

    @property
    def kept_fields(self) -> tuple[str, ...]:
        """Fields of a federated user that have no effect."""
        authentication = self.spec.authentication
        given = {
            "provider": authentication.provider,
            "federatedUserid": authentication.federated_userid,
            "federatedUsername": authentication.federated_username,
        }
        return tuple(name for name, value in given.items() if value is not None)

    def excess(self) -> str | None:
        """Return the error for more addresses than a user can have; None if it is valid."""
        named = [one.addresses or ("#",) for one in self.spec.authorization]
        patterns = [pattern for addresses in named for pattern in addresses]
        wildcards = sum(map(has_wildcard, patterns))
        remedy = "use a common pattern, or several users"
        if len(patterns) > PATTERNS_MAX:
            return f"has {len(patterns)} addresses; {PATTERNS_MAX} are allowed: {remedy}"
        if wildcards > WILDCARDS_MAX:
            return f"has {wildcards} patterns with wildcards; {WILDCARDS_MAX} are allowed: {remedy}"
        return None

    def document(self) -> dict[str, Any]:
        """Return plain data without empty verifiers."""
        data = super().document()
        if not self.spec.authentication.verifiers:
            del data["spec"]["authentication"]["verifiers"]
        return data
