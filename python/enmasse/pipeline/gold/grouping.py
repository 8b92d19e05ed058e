"""Rows by their keys, with numpy: which group each row is in, and groups in the order of time."""

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
from numpy.typing import NDArray

Numbers = NDArray[Any]


def array(column: Any) -> Numbers:
    """Return a column without nulls as an array."""
    if isinstance(column, pyarrow.Array):
        return numpy.asarray(column.to_numpy(zero_copy_only=False))
    return numpy.asarray(column.to_numpy())


def groups(rows: pyarrow.Table, names: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Return the number of each row's group, and the first row of each group."""
    code = numpy.zeros(len(rows), numpy.int64)
    for name in names:
        found = rows[name].combine_chunks().dictionary_encode()
        part = array(found.indices).astype(numpy.int64)
        # squeezed after each, so that the product never leaves 64 bits
        code = numpy.unique(code * len(found.dictionary) + part, return_inverse=True)[1]
    _, first, group = numpy.unique(code, return_index=True, return_inverse=True)
    return group, first


def in_order(rows: pyarrow.Table, group: Numbers, names: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Return the order of rows by group and then by columns, the most important first, and where
    in it each group begins, with the end of the last."""
    keys = []
    for name in reversed(names):
        column = rows[name]
        is_time = pyarrow.types.is_timestamp(column.type)
        keys.append(array(column.cast(pyarrow.int64()) if is_time else column))
    order = numpy.lexsort([*keys, group])
    starts = numpy.flatnonzero(numpy.diff(group[order], prepend=-1))
    return order, numpy.append(starts, len(rows))
