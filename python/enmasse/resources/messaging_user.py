"""MessagingUser: who may connect to an address space, and what they may do there.

A password comes in and never goes out: before a user is stored, `enmasse.auth` replaces it by SCRAM
verifiers, and `public()` leaves those out of everything a client can read.
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
    Column,
    Declared,
    Metadata,
    Model,
    dotted_name,
    name_in_space,
)

STORED = "stored"
"""Validation context under which a document may carry what only the server writes."""

PASSWORD_BYTES_MAX = 1024
"""Longest password. Far above what anyone types; the cost of hashing must have a bound."""

PATTERN_LEVELS_MAX = 64
"""Most levels of a pattern; the node matches in time proportional to them."""

PATTERNS_MAX = 1000
"""Most addresses and patterns of one user, over all authorizations."""

WILDCARDS_MAX = 100
"""Most of them with wildcards: the node tries each with the name of a link, and with that of a
message to the anonymous terminus."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which kubectl keeps a copy of the document, password included."""

Operation = Literal["send", "recv", "view", "manage", "create"]

_USERNAME = re.compile(r"[a-z0-9]([a-z0-9_@.:-]*[a-z0-9])?")
_AUTHENTICATION_TYPES = ("password", "serviceaccount", "federated")


def _username(value: str) -> str:
    if len(value) > 255 or not _USERNAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not allowed: use at most 255 lower-case letters, digits and _ @ . : -,"
            " beginning and ending with a letter or digit"
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
        raise ValueError(f"must stand for 1 to {PASSWORD_BYTES_MAX} bytes")
    return value


def pattern_of(value: str) -> str:
    """Check a pattern of addresses.

    Raises: ValueError if it is none.
    """
    levels = value.split("/")
    if not value or len(levels) > PATTERN_LEVELS_MAX:
        raise ValueError(f"{value!r} is not a pattern: 1 to {PATTERN_LEVELS_MAX} levels are wanted")
    *above, last = levels
    if any("*" in level and level != "*" for level in above) or "*" in last.removesuffix("*"):
        raise ValueError(
            f"{value!r} is not a pattern: `*` stands for one whole level between slashes, or ends"
            " the pattern (`orders*` is every name that begins so)"
        )
    return value


def has_wildcard(pattern: str) -> bool:
    """Whether a pattern stands for more than one name."""
    levels = pattern.split("/")
    return levels[-1].endswith("*") or any(level in ("+", "*", "#") for level in levels)


class Verifier(Model):
    """What the server keeps of a password, for one hash (RFC 5802, 3). Binary parts are base64."""

    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
    salt: str
    iterations: int
    stored_key: str
    server_key: str


PASSWORD_KEY = "password"
"""Value of a Secret that is the password, where the user names none."""


class PasswordSecret(Model):
    """The Secret, in the namespace of the user, that has a password."""

    name: Annotated[str, AfterValidator(dotted_name)]
    key: Annotated[str, Field(min_length=1, max_length=253)] = PASSWORD_KEY
    """Which of its values it is."""


class PasswordAuthentication(Model):
    """How a user proves who they are."""

    type: Annotated[str, AfterValidator(_known_type)]
    """`password`; `federated`: by a token or a client certificate, and there is no password; or
    `serviceaccount`, by the token of one, which is kept and lets nobody in here."""

    password: Annotated[str, AfterValidator(_password)] | None = Field(default=None, repr=False)
    """The password, base64. Write-only: it is never stored and never returned."""

    password_secret: PasswordSecret | None = None
    """Where the password is, instead of `password`. It follows the Secret; while there is none, the
    user is not let in."""

    provider: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Identity provider of a federated user. Kept: a token is checked by the service of the space,
    and the user is known by `username`."""

    federated_userid: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """What that provider knows the user by. Kept."""

    federated_username: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """What that provider calls the user. Kept."""

    verifiers: tuple[Verifier, ...] = Field(default=(), repr=False)
    """What is kept of the password. Written by the server alone."""

    @field_validator("verifiers")
    @classmethod
    def _from_the_store_only(
        cls, value: tuple[Verifier, ...], info: ValidationInfo
    ) -> tuple[Verifier, ...]:
        if value and not (info.context or {}).get(STORED):
            raise ValueError("is written by the server: give a password")
        return value


class Authorization(Model):
    """Some operations on some addresses."""

    addresses: tuple[Annotated[str, AfterValidator(pattern_of)], ...] = ()
    """Names or patterns: `*` or `+` is one level, `#` any number, `ord*` what begins so, `*` all.
    None: all."""

    operations: Annotated[tuple[Operation, ...], Field(min_length=1)]
    """Any of send, recv, create, view, manage. Create is to have an address created by a link,
    where the space does that. View and manage are always for the whole space; nothing here asks for
    manage."""


class MessagingUserMetadata(Metadata):
    """Metadata of a user."""

    name: Annotated[str, AfterValidator(name_in_space)]
    """`<space>.<user>`; the first part names the address space."""


class MessagingUserSpec(Model):
    """Who a user is and what they may do."""

    username: Annotated[str, AfterValidator(_username)]
    """The name the user logs in with."""

    authentication: PasswordAuthentication
    """How the user proves who they are: type and password."""

    authorization: tuple[Authorization, ...] = ()
    """What the user may do. None: nothing."""


def without_readable_password(document: dict[str, Any]) -> dict[str, Any]:
    """Return plain data of a user without the password, wherever it stands; the same if it has
    none."""
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
    """Return annotations with the password taken out of kubectl's copy; a copy that cannot be read
    is left out."""
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


class MessagingUser(Declared):
    """A declared user of one address space."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("Username", "spec.username"),
        Column("Type", "spec.authentication.type"),
        Column("Ready", "status.isReady", "boolean"),
        Column("Phase", "status.phase"),
        Column("Status", "status.messages"),
        AGE,
    )
    selectable: ClassVar[tuple[str, ...]] = ("spec.username", "status.phase", "status.isReady")
    write_only: ClassVar[tuple[str, ...]] = ("spec.authentication.password",)
    immutable: ClassVar[tuple[str, ...]] = ("username",)

    kind: Literal["MessagingUser"] = Field(default="MessagingUser")
    metadata: MessagingUserMetadata
    spec: MessagingUserSpec

    @property
    def is_complete(self) -> bool:
        """Whether it has verifiers if it needs some, and no password."""
        authentication = self.spec.authentication
        needs_some = authentication.type == "password" and authentication.password_secret is None
        has_what_it_needs = bool(authentication.verifiers) or not needs_some
        return authentication.password is None and has_what_it_needs

    @property
    def is_service_account(self) -> bool:
        """Whether it is one that only a cluster could be asked about."""
        return self.spec.authentication.type == "serviceaccount"

    @property
    def missing_secret(self) -> str | None:
        """What there is to say of a Secret that gives no password; None: there is a password, or
        none is needed."""
        secret = self.spec.authentication.password_secret
        if secret is None or self.spec.authentication.verifiers:
            return None
        return (
            f"Secret {secret.name!r} in namespace {self.metadata.namespace!r} has no value"
            f" {secret.key!r} that can be a password; nobody is let in until it has one"
        )

    def with_verifiers(self, verifiers: tuple[Verifier, ...]) -> Self:
        """Return the user as it may be stored: the password gone, from kubectl's copy too."""
        authentication = self.spec.authentication.model_copy(
            update={"password": None, "verifiers": verifiers}
        )
        spec = self.spec.model_copy(update={"authentication": authentication})
        annotations = _without_password(self.metadata.annotations)
        return self.model_copy(update={"spec": spec}).with_metadata(annotations=annotations)

    def public(self) -> Self:
        """Return the user without verifiers, which a thief could try passwords against."""
        return self.with_verifiers(())

    def faults(self) -> list[Fault]:
        """Return a password that nobody can log in with, and more addresses than are served."""
        found: list[Fault] = []
        authentication = self.spec.authentication
        given = {
            "password": authentication.password,
            "passwordSecret": authentication.password_secret,
        }
        fields = [name for name, value in given.items() if value is not None]
        if authentication.type != "password":
            message = f"is for type password, not {authentication.type}; leave it out"
            found += [Fault(f"spec.authentication.{name}", message) for name in fields]
        elif len(fields) > 1:
            message = "cannot stand beside password; keep one of the two"
            found.append(Fault("spec.authentication.passwordSecret", message))
        if authentication.type != "federated":
            message = f"is for type federated, not {authentication.type}; leave it out"
            found += [Fault(f"spec.authentication.{name}", message) for name in self.kept_fields]
        if (excess := self.excess()) is not None:
            found.append(Fault("spec.authorization", excess))
        return found

    @property
    def kept_fields(self) -> tuple[str, ...]:
        """The fields of a federated user that are given, and do nothing here."""
        authentication = self.spec.authentication
        given = {
            "provider": authentication.provider,
            "federatedUserid": authentication.federated_userid,
            "federatedUsername": authentication.federated_username,
        }
        return tuple(name for name, value in given.items() if value is not None)

    def excess(self) -> str | None:
        """Return what there is to say of more addresses than a user can have; None: it is fine."""
        named = [one.addresses or ("#",) for one in self.spec.authorization]
        patterns = [pattern for addresses in named for pattern in addresses]
        wildcards = sum(map(has_wildcard, patterns))
        mend = "say what is common to them by one pattern, or make several users"
        if len(patterns) > PATTERNS_MAX:
            return f"has {len(patterns)} addresses; {PATTERNS_MAX} are allowed: {mend}"
        if wildcards > WILDCARDS_MAX:
            return f"has {wildcards} patterns with wildcards; {WILDCARDS_MAX} are allowed: {mend}"
        return None

    def document(self) -> dict[str, Any]:
        """Return plain data; no verifiers are left out rather than shown as none."""
        data = super().document()
        if not self.spec.authentication.verifiers:
            del data["spec"]["authentication"]["verifiers"]
        return data
