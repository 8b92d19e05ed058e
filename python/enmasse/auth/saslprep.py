"""SASLprep (RFC 4013): one form for equivalent texts before hashing or comparing."""

import stringprep
import unicodedata

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str:
    """Return the prepared form of a stored string.

    Raises: ValueError if the text contains a character that is prohibited or unassigned in Unicode
        3.2, or mixes writing directions (RFC 3454, 6).
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    for character in prepared:
        if any(prohibits(character) for prohibits in _PROHIBITED):
            raise ValueError("it has a control, private or other prohibited character")
        if stringprep.in_table_a1(character):
            raise ValueError("it has a character that Unicode 3.2 does not assign")
    _check_direction(prepared)
    return prepared


def _check_direction(text: str) -> None:
    right_to_left = [stringprep.in_table_d1(character) for character in text]
    if not any(right_to_left):
        return
    if any(stringprep.in_table_d2(character) for character in text):
        raise ValueError("it mixes right-to-left and left-to-right characters")
    if not (right_to_left[0] and right_to_left[-1]):
        raise ValueError("right-to-left text must begin and end with right-to-left characters")
