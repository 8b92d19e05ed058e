"""Derivation of stored SCRAM keys (RFC 5802, 3) from passwords; they also verify PLAIN.

Derivation takes milliseconds of CPU by design: call it in a thread.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable
from typing import Literal

from enmasse.auth.saslprep import saslprep
from enmasse.base.errors import Code, Fault, Invalid
from enmasse.base.ids import new_salt
from enmasse.resources import MessagingUser, Verifier
from enmasse.resources.messaging_user import PASSWORD_BYTES_MAX

ITERATIONS = 10_000
"""PBKDF2 iterations. RFC 7677 requires at least 4096; each login costs its client as many."""

_Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
_HASHES: dict[_Mechanism, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def without_password(user: MessagingUser, stored: MessagingUser | None) -> MessagingUser:
    """Return a user for storage: with verifiers instead of a password.

    Users of other types have neither. Without a password the stored verifiers stay; with the same
    password too, so applying a document twice changes nothing.

    Raises: Invalid if there is neither a password nor a stored user, or the password is malformed.
    """
    authentication = user.spec.authentication
    if authentication.type != "password" or authentication.password_secret is not None:
        return user.with_verifiers(())
    kept = stored.spec.authentication.verifiers if stored else ()
    encoded = user.spec.authentication.password
    if encoded is None:
        if not kept:
            raise _invalid(
                user, "is required for a new user: the password, base64; or name a passwordSecret"
            )
        return user.with_verifiers(kept)
    try:
        password = prepared(encoded)
    except ValueError as error:
        raise _invalid(user, f"cannot be used: {error}") from None
    return user.with_verifiers(kept if verify(password, kept) else derive(password))


def prepared(encoded: str) -> str:
    """Return a base64 password in its prepared form (RFC 4013).

    Raises: ValueError if it is malformed.
    """
    secret = base64.b64decode(encoded)
    if not 0 < len(secret) <= PASSWORD_BYTES_MAX:
        raise ValueError(f"must have 1 to {PASSWORD_BYTES_MAX} bytes")
    password = saslprep(secret.decode())
    if not password:
        raise ValueError("it is empty after normalization (SASLprep)")
    return password


def derive(password: str) -> tuple[Verifier, ...]:
    """Return a verifier per hash, each with its own salt."""
    return tuple(_verifier(mechanism, password, new_salt(), ITERATIONS) for mechanism in _HASHES)


def verify(password: str, verifiers: Iterable[Verifier]) -> bool:
    """Whether verifiers exist and all derive from this password with the current iterations."""
    checks = [
        verifier.iterations == ITERATIONS
        and hmac.compare_digest(
            verifier.stored_key,
            _verifier(
                verifier.mechanism,
                password,
                base64.b64decode(verifier.salt),
                verifier.iterations,
            ).stored_key,
        )
        for verifier in verifiers
    ]
    return bool(checks) and all(checks)


def _verifier(mechanism: _Mechanism, password: str, salt: bytes, iterations: int) -> Verifier:
    name = _HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    return Verifier(
        mechanism=mechanism,
        salt=_text(salt),
        iterations=iterations,
        stored_key=_text(hashlib.new(name, client_key).digest()),
        server_key=_text(hmac.digest(salted, b"Server Key", name)),
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _invalid(user: MessagingUser, message: str) -> Invalid:
    fault = Fault("spec.authentication.password", message)
    return Invalid(
        Code.FIELD_INVALID, f"{user.key}: {fault}", faults=[fault], name=user.metadata.name
    )
