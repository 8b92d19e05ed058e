"""Small files of a plain Parquet table become large ones, each row in one of them whatever is cut
off.

The joined file is written where nobody looks. A note says which files it stands for; then it is
moved to its place, they are deleted, and the note goes. Whoever is cut off in between leaves the
note, and the next one finishes what it says. A reader that lists the folder between the move and
the last deletion sees rows of one file twice; `tables.read` goes by the note.
"""

import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow
import pyarrow.fs
import pyarrow.parquet

NOTE = "joining.json"
SMALL_SIZE = 32 << 20
"""Files from this size on stay as they are."""
JOINED_SIZE = 128 << 20
"""The most of small files, together, that become one."""
PORTION_ROWS = 65_536
"""Rows that are in memory at a time."""
File = tuple[str, int]
"""Where a file lies below the table, and its size."""


class Joiner:
    """Joins files of one table."""

    def __init__(self, files: Any, root: str, marks: str, staging: str) -> None:
        """The table lies at `root`; `marks` and `staging` are folders there that nobody reads."""
        self._files = files
        self._root = root
        self._note = f"{root}/{marks}/{NOTE}"
        self._staging = f"{root}/{staging}"

    def join(self, there: Sequence[File], busy: Collection[str]) -> int:
        """Join files of each folder, but for those that a batch under way still moves; return how
        many are gone.

        `there` was listed before `busy` was, after `finish`.
        """
        folders: dict[str, list[File]] = defaultdict(list)
        for place, size in sorted(there):
            if size < SMALL_SIZE and place not in busy:
                folders[place.rpartition("/")[0]].append((place, size))
        gone = 0
        for folder, found in folders.items():
            for group in groups(found):
                self._replace(folder, group)
                gone += len(group)
        return gone

    def finish(self) -> None:
        """Finish what was cut off."""
        if (note := self._noted()) is None:
            return
        if self._exists(note["new"]):
            self._delete(note["old"])
        self._files.delete_file(self._note)

    def replaced(self) -> set[str]:
        """Return the files whose rows another one has already."""
        note = self._noted()
        return set(note["old"]) if note is not None and self._exists(note["new"]) else set()

    def _replace(self, folder: str, old: list[str]) -> None:
        staged = f"{self._staging}/joined-{uuid.uuid4().hex}.parquet"
        new = f"{folder}/" if folder else ""
        new += staged.rpartition("/")[2]
        self._files.create_dir(self._staging, recursive=True)
        self._write(staged, old)
        with self._files.open_output_stream(f"{self._note}.new") as file:
            file.write(json.dumps({"new": new, "old": old}).encode())
        self._files.move(f"{self._note}.new", self._note)
        self._files.move(staged, f"{self._root}/{new}")
        self._delete(old)
        self._files.delete_file(self._note)

    def _write(self, staged: str, old: Sequence[str]) -> None:
        """Write the rows of files to one, of all columns that any of them has."""
        paths = [f"{self._root}/{place}" for place in old]
        schemas = [pyarrow.parquet.read_schema(path, filesystem=self._files) for path in paths]
        schema = pyarrow.unify_schemas([one.remove_metadata() for one in schemas])
        with pyarrow.parquet.ParquetWriter(
            staged, schema, filesystem=self._files, compression="zstd"
        ) as writer:
            for path in paths:
                with self._files.open_input_file(path) as file:
                    for rows in pyarrow.parquet.ParquetFile(file).iter_batches(PORTION_ROWS):
                        writer.write_batch(_completed(rows, schema))

    def _delete(self, old: Sequence[str]) -> None:
        for place in old:
            if self._exists(place):
                self._files.delete_file(f"{self._root}/{place}")

    def _noted(self) -> dict[str, Any] | None:
        if not self._is_there(self._note):
            return None
        with self._files.open_input_stream(self._note) as file:
            return dict(json.loads(file.read()))

    def _exists(self, place: str) -> bool:
        return self._is_there(f"{self._root}/{place}")

    def _is_there(self, path: str) -> bool:
        return bool(self._files.get_file_info(path).type != pyarrow.fs.FileType.NotFound)


def groups(found: Sequence[File]) -> Iterator[list[str]]:
    """Split files, in their order, into those that become one: two at least."""
    group: list[str] = []
    total = 0
    for place, size in found:
        if group and total + size > JOINED_SIZE:
            if len(group) > 1:
                yield group
            group, total = [], 0
        group.append(place)
        total += size
    if len(group) > 1:
        yield group


def _completed(rows: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """The same rows with null in the columns that they do not have."""
    columns = [
        rows.column(one.name)
        if one.name in rows.schema.names
        else pyarrow.nulls(len(rows), one.type)
        for one in schema
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
