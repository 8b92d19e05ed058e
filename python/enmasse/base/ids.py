"""Identifiers. All randomness comes from here, from the operating system's source."""

import hashlib
import secrets
import uuid


def new_uid() -> str:
    """Return a new resource uid, a random UUID. A recreated resource gets another one."""
    return str(uuid.uuid4())


def new_token() -> str:
    """Return 256 random bits as text that is safe in an HTTP header."""
    return secrets.token_urlsafe(32)


def new_salt() -> bytes:
    """Return 16 random bytes, the salt of one set of verifiers."""
    return secrets.token_bytes(16)


def short_hash(text: str) -> str:
    """Return a hash of `text` in 8 hexadecimal digits, the same on every machine."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
