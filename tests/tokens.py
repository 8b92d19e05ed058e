"""Tokens of the API and the Secrets that describe them."""

import hashlib

from enmasse.resources import Secret, parse
from enmasse.resources.api_token import TOKEN_TYPE, TOKENS_NAMESPACE


def token_secret(token: str, namespace: str = TOKENS_NAMESPACE, **texts: str) -> Secret:
    """The Secret of a token; `tenant_edit="shop"` gives the role."""
    said = {name.replace("_", "-"): text for name, text in texts.items()}
    found = parse(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": token.rpartition(".")[0], "namespace": namespace},
            "type": TOKEN_TYPE,
            "stringData": {"sha256": hashlib.sha256(token.encode()).hexdigest()} | said,
        }
    )
    assert isinstance(found, Secret)
    return found
