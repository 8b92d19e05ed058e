"""Printing: tables for people, JSON and YAML for programs."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from enmasse.cli.options.shared import Output

Rows = Sequence[Sequence[object]]


def show(document: Any, form: Output, as_text: Callable[[], str]) -> None:
    """Print a document as JSON or YAML, or the text form."""
    if form is Output.JSON:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif form is Output.YAML:
        import yaml

        yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True)
    else:
        print(as_text())


def columns(headings: Sequence[str], rows: Rows, widths: list[int] | None = None) -> str:
    """Return columns aligned under their headings; numbers to the right.

    `widths` are those of earlier output, and are updated.
    """
    lines = [list(headings), *([text(cell) for cell in row] for row in rows)]
    places = range(len(headings))
    numeric = [bool(rows) and all(_is_number(row[place]) for row in rows) for place in places]
    before = widths or [0] * len(headings)
    widths = [max(before[place], *(len(line[place]) for line in lines)) for place in places]
    return "\n".join(
        "  ".join(
            line[place].rjust(widths[place]) if numeric[place] else line[place].ljust(widths[place])
            for place in places
        ).rstrip()
        for line in lines
    )


def is_interactive() -> bool:
    """Whether a user can answer a prompt."""
    return sys.stdin.isatty()


def repeat(render: Callable[[], str], every_s: float) -> NoReturn:
    """Refresh a text on the terminal until Ctrl-C; without a terminal print each version below the
    last.
    """
    import time

    while not sys.stdout.isatty():
        print(render(), flush=True)
        time.sleep(every_s)
    from rich.live import Live
    from rich.text import Text

    with Live(Text(render()), auto_refresh=False) as live:
        while True:
            time.sleep(every_s)
            live.update(Text(render()), refresh=True)


@contextmanager
def progress(label: str, expected: int | None) -> Iterator[Callable[..., None]]:
    """Show a progress bar while the body runs; call the yielded function per item, or with a
    number.

    Nothing is shown without a terminal, or for a single item.
    """
    if not sys.stderr.isatty() or expected == 1:
        yield lambda count=1: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns_ = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns_, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=expected)
        yield lambda count=1: bar.advance(task, count)


def _is_number(cell: object) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def text(cell: object) -> str:
    """Format a cell: numbers with commas, yes and no, `-` for empty."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
