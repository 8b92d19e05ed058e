"""The owner's API token: readable by users with access to the data folder only.

A web page on the same machine can send requests to a loopback port but cannot read this file.
"""

import hmac
from pathlib import Path

from enmasse.base.data_dir import write_private
from enmasse.base.ids import new_token


def ensure_token(file: Path) -> str:
    """Return the token in `file`, created on first use with mode 0600.

    The file contains nothing else, not even a newline: some clients send it unchanged.
    """
    found = file.read_text() if file.exists() else ""
    token = found.strip() or new_token()
    if found != token:
        write_private(file, token)
    file.chmod(0o600)
    return token


def is_bearer_of(token: str, authorization: str | None) -> bool:
    """Whether an `Authorization` header carries this token, compared in constant time."""
    scheme, _, given = (authorization or "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        given.strip().encode(), token.encode()
    )
