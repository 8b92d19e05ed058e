"""The eight errors, classified by the required reaction, and the one table of their codes.

Every expected failure is one of these. Each edge (HTTP, AMQP, the command line) maps them to its
own protocol in one table; no other code translates them. The Rust side has the same eight, and
`enmasse.native` converts those to these.

    Invalid      the caller must change the request
    Denied       the caller lacks the right
    Missing      the object does not exist
    Conflict     the caller must read again, then retry
    Exhausted    a stated limit was reached; the caller must slow down or use less
    Unavailable  a temporary failure; the request is valid and can be retried
    PeerError    the remote peer violated a protocol
    Misuse       our own caller violated a contract: a bug
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self


class Code(StrEnum):
    """Every error code and its meaning. A code is never reused.

    The first digit is the kind of error: 1 Invalid, 2 Denied, 3 Missing, 4 Conflict, 5 Exhausted,
    6 Unavailable, 7 PeerError, 8 Misuse.
    """

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """Create a member whose value is the code alone."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    REQUEST_INVALID = "E1000", "the request is invalid"
    DOCUMENT_UNREADABLE = "E1001", "the text is not a YAML or JSON document"
    KIND_UNKNOWN = "E1002", ("the kind or apiVersion of the document is not served")
    FIELD_INVALID = "E1003", "a field is missing, unknown or invalid"
    FIELD_IMMUTABLE = "E1004", "a field that cannot change was changed"
    SPACE_ABSENT = "E1005", "the resource names an address space that does not exist"
    SETTING_INVALID = "E1006", "a setting is unknown or invalid"
    SPACE_EXPOSED = "E1007", "a space without authentication would be open to the network"
    DATA_TOO_NEW = "E1008", "the data folder was written by a newer version"
    DATA_TOO_OLD = "E1009", "the data folder has an older format and must be upgraded"
    URL_INVALID = "E1010", "the URL does not name an AMQP server"
    PATCH_UNSUPPORTED = "E1011", "the patch type is not supported"
    REFERENCE_INVALID = "E1012", ("a referenced address does not exist or has another type")
    OPERATION_UNFIT = "E1013", "the address type does not support the operation"
    SELECTOR_UNREADABLE = "E1014", ("a selector is malformed or uses an unsupported field")
    PARAMETER_INVALID = "E1015", "a query parameter is invalid"
    FORM_UNSUPPORTED = "E1016", "no representation matches the Accept header"
    PATCH_UNFIT = "E1017", "the patch does not apply to the resource"
    CHOICE_INVALID = "E1018", ("the chosen plan or service does not exist or does not fit")
    BACKUP_UNREADABLE = "E1020", "the file is not a backup, or is incomplete"

    ACCESS_DENIED = "E2000", "the caller does not have the right"
    TOKEN_REQUIRED = "E2001", "the request has no valid bearer token"
    HOST_REFUSED = "E2002", "the Host header names another server"
    VERB_REFUSED = "E2003", "the path does not support the method"
    TLS_REQUIRED = "E2004", "another machine used the API without TLS"
    PLAN_WITHHELD = "E2005", "the namespace may not use the plan"
    CSRF_TOKEN_REQUIRED = "E2006", "a change of a console session lacks its CSRF token"
    ORIGIN_REFUSED = "E2007", "a page of another origin used a console session"
    LOGIN_REFUSED = "E2008", "the token or code of a login is wrong, used or expired"

    NOT_FOUND = "E3000", "it does not exist"
    RESOURCE_MISSING = "E3001", "the resource does not exist"
    PATH_MISSING = "E3002", "the path does not exist"
    CONNECTION_MISSING = "E3003", "the connection does not exist"
    SERVER_MISSING = "E3004", "no running platform was found"

    STATE_CONFLICT = "E4000", "the state changed concurrently"
    VERSION_CONFLICT = "E4001", "the resource has changed since it was read"
    ALREADY_EXISTS = "E4002", "the resource already exists"
    ADDRESS_TAKEN = "E4003", "another resource of the space has that address or user name"
    DATA_LOCKED = "E4004", "another process uses the data folder"
    VERSION_EXPIRED = "E4005", ("the watch begins before the oldest retained change")
    MESSAGES_STORED = "E4006", "the address holds messages"
    FIELD_OWNED = "E4007", "another field manager owns the field"
    STORE_STRANGE = "E4008", "the messages in the data folder belong to another store"
    MESSAGE_GONE = "E4009", "the message is not available for the operation"
    NODE_TAKEN = "E4010", "another process or data folder is the node of that name"
    NODE_REPLACED = "E4011", "another start of the node has replaced this process"

    LIMIT_REACHED = "E5000", "a limit was reached"
    REQUEST_TOO_LARGE = "E5001", "the request body is larger than the limit"
    QUOTA_EXCEEDED = "E5002", "the quota of the address space is exceeded"

    NOT_AVAILABLE = "E6000", "the server is temporarily unavailable"
    PORT_TAKEN = "E6001", "cannot listen on the address or port"
    SERVER_UNREACHABLE = "E6002", "the server does not answer"
    SHUTTING_DOWN = "E6003", "the process is stopping"
    DATA_UNUSABLE = "E6004", "the data folder or a file in it cannot be read or written"
    OPERATION_UNSUPPORTED = "E6005", "the node does not support the operation"
    VERSION_AHEAD = "E6006", "the requested resourceVersion is in the future"
    STORE_UNUSABLE = "E6007", "the database of resources cannot be reached, read or written"
    STANDING_BY = "E6008", ("another process of the same database serves messaging")
    RECEIVER_ABSENT = "E6009", "the address did not take the message in time"

    PROTOCOL_BROKEN = "E7000", "the peer violated the protocol"

    INTERNAL = "E8000", "a bug in EnMasse"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a request: the field's path, and the error with its remedy."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class EnMasseError(Exception):
    """An error, reported once.

    `message` is one line with the error and, if there is one, its remedy. `faults` lists the fields
    at fault. `context` holds more facts for the log, never a secret.
    """

    kind: ClassVar[str] = "Misuse"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        faults: Sequence[Fault] = (),
        retry_after_s: float | None = None,
        **context: Any,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.faults = tuple(faults)
        self.retry_after_s = retry_after_s
        self.context = context

    def __str__(self) -> str:
        return self.message


class Invalid(EnMasseError):
    """The caller must change the request."""

    kind = "Invalid"


class Denied(EnMasseError):
    """The caller lacks the right."""

    kind = "Denied"


class Missing(EnMasseError):
    """The object does not exist."""

    kind = "Missing"


class Conflict(EnMasseError):
    """The state has changed; the caller must read again, then retry."""

    kind = "Conflict"


class Exhausted(EnMasseError):
    """A stated limit was reached; the caller must slow down or use less."""

    kind = "Exhausted"


class Unavailable(EnMasseError):
    """A temporary failure; the caller can retry, after `retry_after_s` where known."""

    kind = "Unavailable"


class PeerError(EnMasseError):
    """The remote peer violated a protocol; the message names the section."""

    kind = "PeerError"


class Misuse(EnMasseError):
    """Our own caller violated a contract: a bug."""

    kind = "Misuse"


KINDS: dict[str, type[EnMasseError]] = {
    error.kind: error
    for error in (
        Invalid,
        Denied,
        Missing,
        Conflict,
        Exhausted,
        Unavailable,
        PeerError,
        Misuse,
    )
}
"""The eight error classes by name, as on the native side."""
