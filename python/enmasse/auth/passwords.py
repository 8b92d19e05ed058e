"""From a password to what is kept of it: SCRAM keys (RFC 5802, 3), which check PLAIN as well.

Deriving takes milliseconds of one core by design: call it in a thread.
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
"""Rounds of PBKDF2. RFC 7677 asks for 4096 or more; each login pays this once, on its client."""

_Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
_HASHES: dict[_Mechanism, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def without_password(user: MessagingUser, stored: MessagingUser | None) -> MessagingUser:
    """Return a user as it may be stored: with verifiers instead of a password.

    One who has no password has none. Without a password the verifiers of the stored user stay;
    with the same password too, so that a document applied twice changes nothing.

    Raises: Invalid if there is neither a password nor a stored user, or the password is not text
        that may be one.
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
    """Return a password given in base64 as it is derived from (RFC 4013).

    Raises: ValueError if it is not text that may be a password.
    """
    secret = base64.b64decode(encoded)
    if not 0 < len(secret) <= PASSWORD_BYTES_MAX:
        raise ValueError(f"1 to {PASSWORD_BYTES_MAX} bytes are wanted")
    password = saslprep(secret.decode())
    if not password:
        raise ValueError("all its characters stand for nothing")
    return password


def derive(password: str) -> tuple[Verifier, ...]:
    """Return a verifier for each hash, each with a salt of its own."""
    return tuple(_verifier(mechanism, password, new_salt(), ITERATIONS) for mechanism in _HASHES)


def verify(password: str, verifiers: Iterable[Verifier]) -> bool:
    """Whether verifiers, at least one, were all derived from this password at today's cost."""
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
