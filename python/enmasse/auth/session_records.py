"""Console sessions and one-time codes as they are stored. Pure.

Both are Secrets in the namespace of API tokens, to which no role grants access, so that every
process of a store knows them. The cookie or code is `ID.RANDOM`; the Secret `console-ID` contains
only its digest:

    sha256     SHA-256 of the cookie or code, 64 hexadecimal digits
    method     how the person was identified: owner, token or oidc
    name       name of the caller
    proof      of a token: the digest in its Secret, so that a replaced token ends the session
    roles      of oidc: JSON, namespaces by role
    created, expires, used    RFC 3339
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, cast, get_args

from enmasse.base.clock import rfc3339
from enmasse.resources import Key, Secret
from enmasse.resources.api_token import ROLES, TOKENS_NAMESPACE, Role

SESSION_TYPE = "enmasse.io/console-session"
CODE_TYPE = "enmasse.io/console-code"
NAME_PREFIX = "console-"
ID_LENGTH = 16
"""Hexadecimal digits of an id."""

Method = Literal["owner", "token", "oidc"]

_CSRF_LABEL = b"enmasse console csrf"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who logged in, and by what."""

    method: Method
    name: str
    proof: str = ""
    """Of a token: the digest in its Secret."""

    roles: Mapping[Role, frozenset[str]] = field(default_factory=dict)
    """Of oidc: namespaces by role. The roles of a token are read from its Secret."""

    expires: datetime | None = None
    """End of the identity itself; None: no end."""


@dataclass(frozen=True, slots=True)
class Record:
    """A stored session or code."""

    key: Key
    uid: str
    version: str
    digest: str
    identity: Identity
    created: datetime
    expires: datetime
    used: datetime


def key_of(secret_text: str) -> Key | None:
    """Return the key of the Secret of a cookie or code; None if it is malformed."""
    id_, dot, rest = secret_text.partition(".")
    is_id = len(id_) == ID_LENGTH and set(id_) <= set("0123456789abcdef")
    if not (is_id and dot and rest and rest.isascii()):
        return None
    return Key("Secret", TOKENS_NAMESPACE, f"{NAME_PREFIX}{id_}")


def digest_of(secret_text: str) -> str:
    """Return the digest that is stored of a cookie or code."""
    return hashlib.sha256(secret_text.encode()).hexdigest()


def csrf_token(cookie: str) -> str:
    """Return the CSRF token of a session. The key is the cookie itself, which no script can read,
    so that a token is valid for one session, in every process.
    """
    digest = hmac.new(cookie.encode(), _CSRF_LABEL, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def is_csrf_token(cookie: str, given: str | None) -> bool:
    """Whether a request carries the CSRF token of its session, compared in constant time."""
    return hmac.compare_digest(csrf_token(cookie).encode(), (given or "").encode())


def secret_of(
    type_: str, cookie: str, identity: Identity, created: datetime, expires: datetime
) -> Secret:
    """Return the Secret of a new session or code."""
    key = key_of(cookie)
    assert key is not None
    texts = {
        "sha256": digest_of(cookie),
        "method": identity.method,
        "name": identity.name,
        "proof": identity.proof,
        "roles": json.dumps({role: sorted(where) for role, where in identity.roles.items()}),
        "created": rfc3339(created),
        "expires": rfc3339(expires),
        "used": rfc3339(created),
    }
    return Secret.model_validate(
        {
            "metadata": {"name": key.name, "namespace": key.namespace},
            "type": type_,
            "stringData": texts,
        }
    )


def used_at(secret: Secret, now: datetime) -> Secret:
    """Return the Secret of a session with another time of its last use."""
    text = base64.b64encode(rfc3339(now).encode()).decode()
    return secret.model_copy(update={"data": {**secret.data, "used": text}})


def record_of(secret: object, type_: str) -> Record | None:
    """Return the record in a Secret; None if it is another one or malformed."""
    if not isinstance(secret, Secret) or secret.type != type_:
        return None
    texts = {name: secret.text(name) or "" for name in secret.data}
    try:
        moments = [datetime.fromisoformat(texts[name]) for name in ("created", "expires", "used")]
        identity = Identity(
            method=_method(texts["method"]),
            name=texts["name"],
            proof=texts["proof"],
            roles=_roles(json.loads(texts["roles"])),
        )
        digest = texts["sha256"]
    except (KeyError, ValueError, AttributeError, TypeError):
        return None
    if any(one.tzinfo is None for one in moments):
        return None
    created, expires, used = moments
    metadata = secret.metadata
    return Record(
        key=secret.key,
        uid=metadata.uid or "",
        version=metadata.resource_version or "",
        digest=digest,
        identity=identity,
        created=created,
        expires=expires,
        used=used,
    )


def is_proven(record: Record, cookie: str) -> bool:
    """Whether a cookie or code is that of the record, compared in constant time."""
    return hmac.compare_digest(record.digest.encode(), digest_of(cookie).encode())


def _method(text: str) -> Method:
    if text not in get_args(Method):
        raise ValueError(text)
    return cast(Method, text)


def _roles(document: Mapping[str, list[str]]) -> dict[Role, frozenset[str]]:
    return {role: frozenset(map(str, document[role])) for role in ROLES if role in document}
