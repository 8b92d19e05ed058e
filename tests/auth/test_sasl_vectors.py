"""Passwords, against the vectors that the node also reads."""

import json
from pathlib import Path
from typing import Any

import pytest

import doubles
from enmasse.auth.passwords import ITERATIONS, verify, without_password
from enmasse.auth.saslprep import saslprep
from enmasse.base.errors import Invalid
from enmasse.resources import Verifier

VECTORS = Path(__file__).parents[2] / "vectors" / "sasl"
PREPARED: list[dict[str, Any]] = json.loads((VECTORS / "prepared.json").read_text())
VERIFIERS: list[dict[str, Any]] = [
    vector
    for vector in json.loads((VECTORS / "verifiers.json").read_text())
    if vector["iterations"] == ITERATIONS
]


@pytest.mark.parametrize("vector", PREPARED, ids=lambda vector: vector["why"])
def test_saslprep_matches_the_vectors_of_the_node(vector: dict[str, Any]) -> None:
    try:
        prepared = saslprep(vector["text"]) or None
    except ValueError:
        prepared = None
    assert prepared == vector["prepared"]


@pytest.mark.parametrize("vector", VERIFIERS, ids=lambda vector: repr(vector["password"]))
def test_verifiers_match_the_vectors_of_the_node(vector: dict[str, Any]) -> None:
    verifier = Verifier(**{key: vector[key] for key in vector if key != "password"})
    assert verify(saslprep(vector["password"]), [verifier])
    assert not verify("another", [verifier])


def test_verifier_vectors_include_non_ascii_passwords() -> None:
    assert any(not vector["password"].isascii() for vector in VERIFIERS)


def test_password_that_normalizes_to_empty_is_rejected() -> None:
    with pytest.raises(Invalid, match="empty after normalization"):
        without_password(doubles.user("shop.alice", "\u00ad"), None)
