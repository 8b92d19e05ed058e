"""Identifiers. Everything drawn by chance is drawn here, from the operating system's source."""

import hashlib
import secrets
import uuid


def new_uid() -> str:
    """Return a new resource uid, a random UUID. A resource made again gets another one."""
    return str(uuid.uuid4())


def new_token() -> str:
    """Return 256 random bits as text that is safe in an HTTP header."""
    return secrets.token_urlsafe(32)


def new_salt() -> bytes:
    """Return 16 random bytes, the salt of one set of verifiers."""
    return secrets.token_bytes(16)


def short_hash(text: str) -> str:
    """Return 8 hexadecimal digits that stand for `text`, the same on every machine."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
