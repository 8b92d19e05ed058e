"""The offsets of a batch, and their division among tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enmasse.base.errors import Conflict
from enmasse.pipeline.connector.options import TASKS_MAX
from enmasse.pipeline.connector.ranges import (
    Offsets,
    Partition,
    Slice,
    State,
    check,
    limited,
    numbers,
    slices,
)

SPANS = st.dictionaries(
    st.integers(0, 9),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    min_size=1,
    max_size=10,
)


def state_of(spans: dict[int, tuple[int, int]], uid: str | None = "u") -> State:
    return State(
        uid, {number: Partition(first, first + more) for number, (first, more) in spans.items()}
    )


def begin(state: State) -> Offsets:
    return state.offsets({number: part.first for number, part in state.partitions.items()})


@given(SPANS, st.integers(1, 10**6))
def test_bounded_batches_cover_every_offset_once(
    spans: dict[int, tuple[int, int]], rows_max: int
) -> None:
    state = state_of(spans)
    start, whole, read = begin(state), sum(more for _, more in spans.values()), 0
    end = limited(start, state, rows_max)
    parts = slices(start, end, 1000)
    read = sum(part.end - part.start for part in parts)
    waiting = [number for number, (_, more) in spans.items() if more]
    assert read == min(max(rows_max, len(waiting)), whole)
    assert {part.partition for part in parts} == set(waiting)
    # the rest is the same backlog with a later start
    rest = limited(end, state, None)
    assert sum(part.end - part.start for part in slices(end, rest, 1000)) == whole - read
    assert numbers(rest) == {number: first + more for number, (first, more) in spans.items()}


@given(SPANS, st.integers(1, 10**6))
def test_tasks_split_a_batch_without_gap_or_overlap(
    spans: dict[int, tuple[int, int]], task_rows: int
) -> None:
    state = state_of(spans)
    start, end = begin(state), limited(begin(state), state, None)
    parts = slices(start, end, task_rows)
    assert parts == slices(start, end, task_rows)
    assert len(parts) <= TASKS_MAX
    at = numbers(start)
    for part in parts:
        assert part.uid == "u"
        assert at[part.partition] == part.start < part.end
        at[part.partition] = part.end
    assert at == numbers(end)


def test_unused_share_of_a_small_partition_goes_to_a_large_one() -> None:
    state = state_of({0: (0, 10), 1: (100, 1000)})
    end = limited(begin(state), state, 500)
    assert sum(numbers(end).values()) - 100 == 500
    assert numbers(limited({"uid": "u", "0": 10, "1": 100}, state, 500)) == {0: 10, 1: 600}


def test_no_partition_starves() -> None:
    state = state_of({number: (0, 100) for number in range(8)})
    end = limited(begin(state), state, 6)
    assert numbers(end) == dict.fromkeys(range(8), 1)
    assert numbers(limited({**end, "0": 100}, state, 1)) == {
        0: 100,
        **dict.fromkeys(range(1, 8), 2),
    }


def test_new_partition_starts_at_its_first_message() -> None:
    state = state_of({0: (0, 10), 1: (0, 5)})
    end = limited({"uid": "u", "0": 10}, state, None)
    assert slices({"uid": "u", "0": 10}, end, 100) == [Slice(1, 0, 5, "u")]


def test_data_loss_is_an_error_or_counted() -> None:
    state = state_of({0: (50, 10), 1: (0, 10)})
    start: Offsets = {"uid": "u", "0": 20, "1": 5}
    with pytest.raises(Conflict, match="30 unread messages of the stream"):
        check(start, state, fails_on_loss=True)
    said = check(start, state, fails_on_loss=False)
    assert said is not None and said.startswith("30 unread messages of the stream")
    assert check({"uid": "u", "0": 55, "1": 10}, state, fails_on_loss=True) is None
    # the lost offsets are part of the batch: its task counts them
    assert slices(start, limited(start, state, None), 1000)[0] == Slice(0, 20, 60, "u")


def test_recreated_stream_is_an_error_or_read_from_its_first_offset() -> None:
    state = state_of({0: (0, 10)}, "new")
    with pytest.raises(Conflict, match="its uid was u and is new"):
        check({"uid": "u", "0": 7}, state, fails_on_loss=True)
    said = check({"uid": "u", "0": 7}, state, fails_on_loss=False)
    assert said is not None and "its uid was u and is new: an unknown number" in said
    assert said.endswith("; 0 messages of the new one are no longer kept")
    end = limited({"uid": "u", "0": 7}, state, None)
    assert slices({"uid": "u", "0": 7}, end, 100) == [Slice(0, 0, 10, "new")]


def test_stream_that_ends_before_the_checkpoint_is_always_an_error() -> None:
    for spans in ({0: (0, 5)}, {1: (0, 5)}):
        with pytest.raises(Conflict, match="use a new checkpoint"):
            check({"uid": None, "0": 7}, state_of(spans, None), fails_on_loss=False)


def test_checkpoint_has_no_uid_for_servers_without_uid() -> None:
    assert state_of({0: (3, 1)}, None).offsets({0: 3}) == {"0": 3}
    assert State.of({"uid": "u", "partitions": [{"partition": 1, "first": 2, "next": 3}]}) == State(
        "u", {1: Partition(2, 3)}
    )
