"""Filters that Spark pushes into a reader, if it pushes any."""

import pickle

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector.source import BatchReader

OFFSET, PARTITION = ("offset",), ("partition",)


@pytest.fixture
def reader() -> BatchReader:
    return BatchReader(option_table.read({"url": "amqp://h", "address": "x"}))


def test_reader_is_accepted_where_spark_pushes_no_filters(reader: BatchReader) -> None:
    """Spark refuses a reader that overrides `pushFilters` (`plan_data_source_read`)."""
    taken = getattr(reader.pushFilters, "__func__", None)
    assert taken is DataSourceReader.pushFilters
    assert reader._narrowed(0, 3, 9) == (3, 9)


FILTERS: list[tuple[list[Filter], tuple[int, int]]] = [
    ([EqualTo(OFFSET, 5)], (5, 6)),
    ([GreaterThan(OFFSET, 5), LessThan(OFFSET, 8)], (6, 8)),
    ([GreaterThanOrEqual(OFFSET, 5), LessThanOrEqual(OFFSET, 7)], (5, 8)),
    ([GreaterThan(OFFSET, 0)], (3, 9)),
    ([EqualTo(PARTITION, 0)], (3, 9)),
    ([EqualTo(PARTITION, 1)], (3, 3)),
    ([In(PARTITION, (1, 2))], (3, 3)),
    ([EqualTo(("value",), 5)], (3, 9)),
]


@pytest.mark.parametrize(("filters", "left"), FILTERS)
def test_pushed_filters_narrow_the_offsets_and_are_all_returned(
    reader: BatchReader, filters: list[Filter], left: tuple[int, int]
) -> None:
    assert reader.pushFilters(filters) is filters
    # the reader is pickled for executors
    for one in (reader, pickle.loads(pickle.dumps(reader))):
        assert one._narrowed(0, 3, 9) == left
