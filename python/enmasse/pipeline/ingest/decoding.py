"""Messages to readings: decoded, changed by the steps of the document, and parsed."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from enmasse.native import declare_columns
from enmasse.pipeline import functions
from enmasse.pipeline.connector import options
from enmasse.pipeline.functions import Step
from enmasse.pipeline.ingest import silver, tasks
from enmasse.resources.pipeline import Source


def columns_of(source: Source) -> dict[str, Any]:
    """Return the columns to be decoded from the messages of a source.

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


def parsed(messages: DataFrame, source: Source, steps: Sequence[Step]) -> DataFrame:
    """Return the readings and quarantined rows of messages, as `silver.SCHEMA`.

    Nothing is computed yet. Raises Invalid for steps that return no frame of records.
    """
    columns, layout = columns_of(source), silver.Layout.of(source)
    schema = from_arrow_schema(silver.SCHEMA)
    if not steps:
        return messages.mapInArrow(tasks.decode_and_parse(columns, layout), schema)
    records = messages.mapInArrow(
        tasks.decode(columns), f"{declare_columns(columns)}, {silver.BATCH_TIME} timestamp"
    )
    return functions.apply(records, steps).mapInArrow(tasks.parse(layout), schema)
