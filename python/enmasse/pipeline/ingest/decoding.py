"""Messages as readings: decoded, changed by the steps of the document, and judged."""

from collections.abc import Sequence
from typing import Any

import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from enmasse.native import declare_columns
from enmasse.pipeline import functions
from enmasse.pipeline.connector import options
from enmasse.pipeline.functions import Step
from enmasse.pipeline.ingest import silver, tasks
from enmasse.resources.pipeline import Source


def declared(source: Source) -> dict[str, Any]:
    """Return what of the messages of a source is to be decoded.

    Raises Invalid for fields that cannot be read together.
    """
    chosen = {
        "url": source.url,
        "address": source.address,
        "decode": source.format,
        "columns": silver.columns(silver.Layout.of(source)),
        "timeUnit": source.time_unit,
    }
    if source.format == "csv":
        chosen["csvHeader"] = str(source.csv_header).lower()
        chosen["csvDelimiter"] = source.csv_delimiter
    return options.read(chosen).columns


def judged(messages: DataFrame, source: Source, steps: Sequence[Step]) -> DataFrame:
    """Return the readings of messages, and what of them is none, as `silver.SCHEMA`.

    Nothing is computed yet. Raises Invalid for steps that give no frame of records.
    """
    columns, layout = declared(source), silver.Layout.of(source)
    schema = from_arrow_schema(silver.SCHEMA)
    if not steps:
        return messages.mapInArrow(tasks.decode_and_judge(columns, layout), schema)
    records = messages.mapInArrow(
        tasks.decode(columns), f"{declare_columns(columns)}, {silver.BATCH_TIME} timestamp"
    )
    return functions.applied(records, steps).mapInArrow(tasks.judge(layout), schema)


def judged_here(messages: pyarrow.Table, source: Source) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Return the readings of messages and what of them is none, computed by this process."""
    layout = silver.Layout.of(source)
    parts = [silver.parse(some, layout) for some in tasks.decoded(messages, declared(source))]
    return silver.parted(pyarrow.concat_tables([silver.SCHEMA.empty_table(), *parts]))
