"""How far a source is read, from Spark's checkpoint and the server, without Spark."""

import json

import pyarrow.fs

from enmasse.base.errors import EnMasseError
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import ranges, reading, uris
from enmasse.pipeline.connector.ranges import Offsets, State
from enmasse.pipeline.connector.source import start_offsets
from enmasse.pipeline.ingest import batches
from enmasse.pipeline.paths import Paths
from enmasse.resources.pipeline import Source

TIMEOUT_S = 2
"""How long `status` and `/metrics` wait for a server."""


def position(checkpoint: str) -> Offsets | None:
    """Return the end of the last committed batch of a query; None before the first."""
    files, root = uris.files(checkpoint)
    chosen = pyarrow.fs.FileSelector(f"{root}/commits", allow_not_found=True)
    names = [info.base_name for info in files.get_file_info(chosen)]
    numbers = [int(name) for name in names if name.isdecimal()]
    if not numbers:
        return None
    with files.open_input_stream(f"{root}/offsets/{max(numbers)}") as file:
        # a version, the metadata of the batch, and the offsets of the only source
        _, _, offsets = file.read().decode().splitlines()
    return dict(json.loads(offsets))


def unread(source: Source, paths: Paths) -> dict[int, int] | None:
    """Return the number of messages at the server that no batch has read, by partition.

    None if it is unknown: the server is unavailable, or the source is a queue, of which only its
    query knows.
    """
    if source.spool is not None:
        return None
    try:
        chosen = batches.options(source, paths) | {"timeout": str(TIMEOUT_S)}
        options = option_table.read(chosen)
        once = reading.retry_for(0)
        state = reading.request(options, lambda stream: State.of(stream.state()), once)
        read = position(paths.checkpoint(source.name))
        start = state.offsets(start_offsets(options, state)) if read is None else read
    except (EnMasseError, OSError):
        return None
    parts = ranges.backlog(start, state)
    return {number: max(0, part.next - part.first) for number, part in parts.items()}
