"""The files that a change of gold replaces, and those that it writes."""

import itertools
import random

from enmasse.pipeline.gold.layout import FILE_ROWS, SHARED_ROWS, File, compactable, covering, groups


def file(first: int, last: int, rows: int = 10) -> File:
    return File(f"{first}-{last}", 1, rows, first, last)


def test_new_starts_get_new_files() -> None:
    (one,) = groups({60: 5, 0: 5}, [file(120, 180)])
    assert (one.files, one.starts, one.rows, one.tasks) == ([], [0, 60], 10, 1)
    first, second = groups({0: SHARED_ROWS, 60: 5}, [])
    assert (first.starts, second.starts) == ([0], [60])


def test_a_start_goes_to_the_file_that_covers_it() -> None:
    files = [file(0, 60), file(120, 180), file(240, 240)]
    kept, new = groups({120: 1, 150: 1, 300: 1}, files)
    assert (kept.files, kept.starts, kept.rows) == ([files[1]], [120, 150], 12)
    assert (new.files, new.starts) == ([], [300])


def test_new_files_do_not_span_existing_files() -> None:
    old, before, after = groups({0: 1, 120: 1, 240: 1}, [file(60, 180)])
    assert (old.starts, before.starts, after.starts) == ([120], [0], [240])


def test_files_that_share_a_start_are_replaced_together() -> None:
    halves = [file(0, 0, FILE_ROWS), file(0, 0, FILE_ROWS)]
    (one,) = groups({0: 1}, halves)
    assert (one.files, one.tasks) == (halves, 3)


def test_groups_are_disjoint_and_have_every_start_once() -> None:
    dice = random.Random(5)
    for _ in range(200):
        files = [file(n, n + dice.randrange(4)) for n in sorted(dice.sample(range(40), 8))]
        starts = {start: dice.randrange(1, 2 * SHARED_ROWS) for start in dice.sample(range(40), 9)}
        found = sorted(groups(starts, files), key=lambda one: one.first)
        assert sorted(start for group in found for start in group.starts) == sorted(starts)
        assert all(one.last < other.first for one, other in itertools.pairwise(found))
        held = [one for group in found for one in group.files]
        assert {one.path for one in held} == {
            one.path for one in covering(files, sorted(starts), 1)
        }


def test_covering_finds_the_files_of_windows_inside_longer_windows() -> None:
    files = [file(0, 50), file(60, 110), file(110, 130), file(180, 180)]
    assert covering(files, [120], 60) == [files[2]]
    assert covering(files, [60, 180], 60) == files[1:]


def test_small_adjacent_files_are_compacted_together() -> None:
    third = FILE_ROWS // 3
    files = [file(n, n, third) for n in range(4)]
    (one,) = compactable(files)
    assert one.files == files[:3]
    assert compactable([file(0, 0, FILE_ROWS), file(1, 1, FILE_ROWS)]) == []
    assert compactable([file(0, 0, FILE_ROWS), file(0, 0, FILE_ROWS)]) == []
