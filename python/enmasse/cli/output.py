"""Printing: tables for people, JSON and YAML for programs."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from enmasse.cli.options import Output

Rows = Sequence[Sequence[object]]


def show(document: Any, form: Output, as_table: Callable[[], None]) -> None:
    """Print a document as JSON or YAML, or what `as_table` prints."""
    if form is Output.JSON:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif form is Output.YAML:
        import yaml

        yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True)
    else:
        as_table()


def table(headings: Sequence[str], rows: Rows) -> None:
    """Print columns aligned under their headings; numbers to the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    numeric = [bool(rows) and all(_is_number(row[column]) for row in rows)
               for column in range(len(headings))]  # fmt: skip
    widths = [
        max(len(line[column]) for line in [list(headings), *cells])
        for column in range(len(headings))
    ]
    for line in [list(headings), *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


def _is_number(cell: object) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
