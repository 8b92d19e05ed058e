"""Chunks of rows, and the choice of a ring."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from enmasse.api.history.evaluation import ring_for
from enmasse.api.history.rings import COARSE, FINE, MIDDLE, Row, chunk_start, decode, encode

WIDTH = 3
VALUE = some.integers(min_value=0, max_value=2**62)
ROWS = some.lists(
    some.builds(
        Row,
        some.integers(min_value=0, max_value=2**40),
        some.one_of(some.none(), some.tuples(*[VALUE] * WIDTH)),
    ),
    min_size=1,
    max_size=50,
)


@given(ROWS)
def test_a_chunk_has_the_rows_that_it_was_made_of(rows: list[Row]) -> None:
    assert decode(encode(rows, WIDTH)) == rows


@pytest.mark.parametrize("chunk", [b"", b"x", encode([Row(1, (1, 2, 3))], WIDTH)[:-3]])
def test_a_damaged_chunk_is_refused(chunk: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        decode(chunk)


def test_the_finest_ring_that_reaches_back_is_chosen() -> None:
    now = 1_000_000_000
    assert ring_for(now - 3000, now, 300) is FINE
    assert ring_for(now - 3500, now, 300) is MIDDLE, "the range counts too"
    assert ring_for(now - 80_000, now, 0) is MIDDLE
    assert ring_for(now - 90_000, now, 0) is COARSE
    assert ring_for(0, now, 0) is COARSE


def test_chunks_begin_at_their_period() -> None:
    assert chunk_start(FINE, 1234) == 1200
    assert chunk_start(COARSE, 90_000) == 86_400
