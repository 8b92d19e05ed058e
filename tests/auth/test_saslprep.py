"""SASLprep, with the examples of RFC 4013, 3."""

import pytest

from enmasse.auth.saslprep import saslprep


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
        ("", ""),
    ],
)
def test_saslprep_normalizes_the_examples_of_rfc_4013(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\u0007", "prohibited"),
        ("\u0627\u0031", "right-to-left text"),
        ("\u0627a\u0628", "mixes right-to-left"),
        ("\u0221", "does not assign"),
        ("\ue000", "prohibited"),
    ],
)
def test_saslprep_rejects_what_rfc_4013_prohibits(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        saslprep(text)
