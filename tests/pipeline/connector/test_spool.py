"""The spool between a queue and Spark: retention, deletion and errors."""

import errno
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import TestClock
from enmasse.base.errors import Conflict, EnMasseError, Exhausted, Invalid, Missing, Unavailable
from enmasse.native import pack_ids
from enmasse.pipeline.connector.reading import Retry
from enmasse.pipeline.connector.spool import (
    ID_BYTES,
    IDS_FILES_MAX,
    LOCK,
    Extent,
    Queue,
    Spool,
    extent,
    parse_name,
)


def identity(number: int) -> bytes:
    return number.to_bytes(ID_BYTES, "big")


class Keeper:
    """A spool and the message ids that its reader knows."""

    def __init__(
        self, folder: Path, *, fails: bool = True, address: str = "orders", **of: Any
    ) -> None:
        no_retry = Retry(0, TestClock(), lambda _: None)
        self.spool = Spool(folder, Queue(address, **of), fails_on_loss=fails, retry=no_retry)
        self.known: list[int] = []
        try:
            self.spool.load(self.know)
        except BaseException:
            self.spool.release()
            raise

    def know(self, file: bytes) -> bytes:
        """Ids of a messages file, here JSON of numbers, or of an ids file of the native core."""
        if file.startswith(b"enmspool"):
            ids = file[44 : len(file) - 4]
            numbers = [int.from_bytes(ids[at : at + 16], "big") for at in range(0, len(ids), 20)]
        else:
            try:
                numbers = json.loads(file)
            except ValueError:
                raise Conflict("E4000", "the file is torn") from None
        self.known += numbers
        return b"".join(map(identity, numbers))

    def add(self, count: int) -> None:
        numbers = list(range(self.spool.next, self.spool.next + count))
        ids = b"".join(map(identity, numbers))
        self.spool.add(count, json.dumps(numbers).encode(), ids)

    def read(self, start: int, end: int) -> list[int]:
        """The messages of a batch."""
        found = []
        for part in self.spool.parts(start, end):
            found += json.loads(part.path.read_bytes())
        return [number for number in found if start <= number < end]


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Callable[..., Keeper]]:
    """Opens the spool of this test after its previous holder has released it."""
    opened: list[Keeper] = []

    def open_(**options: bool | str) -> Keeper:
        for one in opened:
            one.spool.release()
        opened.append(Keeper(tmp_path / "spool", **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_
    for one in opened:
        one.spool.release()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 9)),
        st.tuples(st.just("commit"), st.integers(0, 30)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS, st.integers(1, 12))
@settings(deadline=None, max_examples=30)
def test_messages_stay_until_committed_and_the_last_ids_are_remembered(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], window: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    keeper = Keeper(folder)
    uid, added, committed = keeper.spool.uid, 0, 0
    for step, number in steps:
        if step == "add":
            keeper.add(number)
            added += number
        elif step == "commit":
            committed = max(committed, min(added, number))
            keeper.spool.commit(committed, window)
        else:
            keeper.spool.release()
            keeper = Keeper(folder)
            # the uncommitted messages and the id window before them, each once
            assert len(set(keeper.known)) == len(keeper.known)
            first = keeper.spool.first
            assert set(keeper.known) >= set(range(max(0, first - window), added))
        assert (keeper.spool.uid, keeper.spool.next) == (uid, added)
        # a file is deleted as a whole, once all of it is committed
        assert keeper.spool.first <= committed or keeper.spool.first == keeper.spool.committed
        assert keeper.read(committed, added) == list(range(committed, added))
    committed_version = [path for path in folder.iterdir() if path.suffix == ".ids"]
    assert len(committed_version) <= IDS_FILES_MAX + 1
    keeper.spool.release()


def test_many_small_batches_leave_few_files(keeper: Callable[..., Keeper]) -> None:
    kept = keeper()
    for number in range(100):
        kept.add(1)
        kept.spool.commit(number + 1, 30)
    assert len(list(kept.spool.folder.iterdir())) <= IDS_FILES_MAX + 3
    assert set(keeper().known) >= set(range(70, 100))
    assert len(keeper().known) <= 30 + IDS_FILES_MAX


def test_batch_ends_at_a_row_or_byte_limit_and_has_at_least_one_file(
    keeper: Callable[..., Keeper],
) -> None:
    spool = (kept := keeper()).spool
    for _ in range(4):
        kept.add(10)
    size = spool.size(30)
    assert spool.end(0, 1000, 10**6) == 40
    assert spool.end(0, 7, 10**6) == 7
    assert spool.end(7, 10, 10**6) == 17
    assert spool.end(10, 1000, 2 * size) == 30
    assert spool.end(10, 1000, 1) == 20
    assert spool.end(40, 1000, 1) == 40
    assert (spool.size(0) > spool.size(35) == size > 0) and spool.size(40) == 0


def test_lost_checkpoint_is_an_error_only_after_the_first_commit(
    keeper: Callable[..., Keeper], caplog: pytest.LogCaptureFixture
) -> None:
    kept = keeper()
    assert kept.spool.begin() == 0
    kept.add(10)
    kept.add(10)
    assert keeper().spool.begin() == 0
    keeper().spool.commit(10, 5)
    with pytest.raises(Conflict, match=r"read this spool up to offset 10: use its"):
        keeper().spool.begin()
    with caplog.at_level(logging.WARNING):
        assert keeper(fails=False).spool.begin() == 10
    assert "with the remaining messages" in caplog.text
    # from then on the query begins at that offset
    assert keeper().spool.begin() == 10


def test_truncated_file_is_an_error_or_a_warning(
    keeper: Callable[..., Keeper], caplog: pytest.LogCaptureFixture
) -> None:
    kept = keeper()
    kept.add(3)
    kept.add(3)
    (path,) = (part.path for part in kept.spool.parts(3, 6))
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(Conflict, match=r"0003-0+6.messages: the file is torn; restore the file"):
        keeper()
    with caplog.at_level(logging.WARNING):
        assert keeper(fails=False).spool.next == 6
    assert "torn" in caplog.text


def test_missing_file_is_an_error_or_a_warning(
    keeper: Callable[..., Keeper], caplog: pytest.LogCaptureFixture
) -> None:
    kept = keeper()
    for _ in range(3):
        kept.add(2)
    kept.spool.parts(2, 4)[0].path.unlink()
    with pytest.raises(Conflict, match="messages 2 to 3 are missing"):
        keeper()
    with caplog.at_level(logging.WARNING):
        kept = keeper(fails=False)
    assert "messages 2 to 3 are missing; continuing without them" in caplog.text
    assert kept.read(0, 6) == [0, 1, 4, 5]
    kept = keeper(fails=False)
    kept.spool._fails_on_loss = True
    with pytest.raises(Conflict, match="some messages from 0 to 6 are missing"):
        kept.spool.parts(0, 7)


def test_unreadable_identities_are_logged(
    keeper: Callable[..., Keeper], caplog: pytest.LogCaptureFixture
) -> None:
    kept = keeper()
    kept.add(3)
    kept.spool.commit(3, 10)
    (path,) = kept.spool.folder.glob("*.ids")
    path.write_bytes(b"torn")
    with caplog.at_level(logging.WARNING):
        kept = keeper()
    assert "may be duplicated" in caplog.text
    assert (kept.spool.next, kept.known) == (3, [])


def test_files_of_a_crash_are_deleted(keeper: Callable[..., Keeper]) -> None:
    kept = keeper()
    kept.add(3)
    waiting = kept.spool.parts(0, 3)[0].path
    content = waiting.read_bytes()
    kept.spool.commit(3, 10)
    folder = kept.spool.folder
    # killed before the messages file was deleted, and while another was written
    waiting.write_bytes(content)
    (folder / f".{3:020}-{9:020}.messages").write_bytes(b"half")
    # killed before merged ids files were deleted
    (folder / f"{1:020}-{2:020}.ids").write_bytes(pack_ids(identity(1), 1, 2))
    assert (keeper().spool.first, keeper().spool.next) == (3, 3)
    left = sorted(path.name for path in folder.iterdir())
    assert left == [f"{0:020}-{3:020}.ids", LOCK, "spool.json"]


def test_full_disk_is_an_error_and_leaves_no_file(
    keeper: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keeper()
    kept.add(2)
    with monkeypatch.context() as patched:

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patched.setattr(os, "fsync", full)
        with pytest.raises(Exhausted, match=r"option spool: .*No space left.*: free some space"):
            kept.add(3)
    assert (kept.spool.next, keeper().spool.next) == (2, 2)
    kept = keeper()
    kept.add(3)
    assert kept.read(0, 5) == [*range(5)]


def test_disk_failure_is_an_error(
    keeper: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keeper()

    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(Unavailable, match="Input/output error"):
        kept.add(3)


def test_spool_refuses_a_file_or_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Invalid, match="name a writable folder"):
            Keeper(folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("x")
    with pytest.raises(Invalid, match=r"is not a spool, and contains thesis.txt: name"):
        Keeper(other)
    assert (other / "thesis.txt").exists()


def test_spool_records_the_space_and_servers_of_its_queue(
    keeper: Callable[..., Keeper], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "spool" / "spool.json"

    def taken(**of: Any) -> None:
        keeper(**of).spool.release()

    taken()
    # an earlier version recorded only the address
    known = json.loads(path.read_text())
    path.write_text(
        json.dumps({name: known[name] for name in ("version", "uid", "address", "base")})
    )
    with caplog.at_level(logging.WARNING, logger="enmasse.pipeline"):
        taken(space="plant", servers=["a:1", "b:1"])
        with pytest.raises(Conflict, match="is the spool of orders of space plant, not of orders:"):
            taken(servers=["a:1"])
        # one of the recorded servers is enough
        taken(space="plant", servers=["b:1"])
        assert caplog.messages == []
        for _ in range(2):
            taken(space="plant", servers=["c:1"])
    (said,) = caplog.messages
    assert "orders of space plant was read from b:1, and is now read from c:1" in said
    assert json.loads(path.read_text())["uid"] == known["uid"]


def test_spool_refuses_a_second_reader_another_address_or_version(
    keeper: Callable[..., Keeper], tmp_path: Path
) -> None:
    kept = keeper()
    kept.add(1)
    with pytest.raises(Conflict, match=rf"is in use by process {os.getpid()} on "):
        Keeper(tmp_path / "spool")
    with pytest.raises(Conflict, match="is the spool of orders, not of invoices"):
        keeper(address="invoices")
    path = tmp_path / "spool" / "spool.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    with pytest.raises(Invalid, match="another version"):
        keeper()


def test_reader_retries_until_the_previous_reader_ends(tmp_path: Path) -> None:
    before = Keeper(tmp_path)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            before.spool.release()

    spool = Spool(tmp_path, Queue("orders"), fails_on_loss=True, retry=Retry(5, TestClock(), pause))
    assert (spool.uid, len(pauses)) == (before.spool.uid, 2)
    spool.release()


def test_only_spool_file_names_are_parsed() -> None:
    assert parse_name(f"{7:020}-{9:020}.ids") == (7, 9, "ids")
    for other in ("7-9.ids", f"{7:020}-{9:020}.txt", "spool.json", f".{7:020}-{9:020}.messages"):
        assert parse_name(other) is None


def test_unusable_spool_path_raises_an_enmasse_error(tmp_path: Path) -> None:
    with pytest.raises(EnMasseError):
        Spool(Path("/proc/nowhere"), Queue("orders"), fails_on_loss=True)


def test_announced_space_is_remembered(tmp_path: Path) -> None:
    folder = tmp_path / "spool"

    def opened() -> Spool:
        spool = Spool(folder, Queue("orders"), fails_on_loss=True)
        spool.load(lambda _: b"")
        return spool

    first = opened()
    assert first.announced_space is None
    first.announce(None)
    first.announce("plant")
    first.announce(None)
    assert first.announced_space == extent(folder).announced_space == "plant"
    first.release()
    again = opened()
    assert again.announced_space == "plant"
    again.release()


def test_extent_of_a_spool_is_readable_while_it_is_locked(
    keeper: Callable[..., Keeper], tmp_path: Path
) -> None:
    with pytest.raises(Missing, match="no query has used it yet"):
        extent(tmp_path / "none")
    one = keeper()
    folder = one.spool.folder
    assert extent(folder) == Extent(0, [])
    one.add(5)
    one.add(3)
    assert extent(folder) == Extent(8, [(0, 5), (5, 8)])
    one.spool.commit(5, 100)
    assert extent(folder) == Extent(8, [(5, 8)])
    one.spool.commit(8, 100)
    assert extent(folder) == Extent(8, [])
