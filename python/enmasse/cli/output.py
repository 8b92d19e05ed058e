"""Printing: tables for people, JSON and YAML for programs."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from enmasse.cli import kinds
from enmasse.cli.options import Listing, Output

Rows = Sequence[Sequence[object]]


def show(document: Any, form: Output, as_text: Callable[[], str]) -> None:
    """Print a document as JSON or YAML, or as the text that people read."""
    if form is Output.JSON:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif form is Output.YAML:
        import yaml

        yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True)
    else:
        print(as_text())


def show_listed(document: Any, form: Listing, as_text: Callable[[bool], str]) -> None:
    """Print a list of resources, or one, in the form that is asked for.

    `as_text` returns the table; True asks for the wide one.
    """
    if form is Listing.NAME:
        for one in document["items"] if "items" in document else [document]:
            print(kinds.qualified(kinds.named(one["kind"]), one["metadata"]["name"]))
        return
    plain = {Listing.JSON: Output.JSON, Listing.YAML: Output.YAML}.get(form, Output.TABLE)
    show(document, plain, lambda: as_text(form is Listing.WIDE))


def server_table(table: Any, *, wide: bool, namespaces: bool) -> str:
    """Return a table that a server has made of resources as text; `namespaces` adds theirs."""
    shown = [
        (place, column["name"].upper())
        for place, column in enumerate(table["columnDefinitions"])
        if wide or not column.get("priority")
    ]
    headings = [*(["NAMESPACE"] if namespaces else []), *(name for _, name in shown)]
    rows = [
        [
            *([row["object"]["metadata"].get("namespace")] if namespaces else []),
            *(_cell(row["cells"][place]) for place, _ in shown),
        ]
        for row in table["rows"]
    ]
    return columns(headings, rows)


def _cell(cell: Any) -> Any:
    """Return a cell of a server's table; a list is told as one text."""
    return "; ".join(map(str, cell)) or None if isinstance(cell, list) else cell


def columns(headings: Sequence[str], rows: Rows) -> str:
    """Return columns aligned under their headings; numbers to the right."""
    lines = [list(headings), *([text(cell) for cell in row] for row in rows)]
    places = range(len(headings))
    numeric = [bool(rows) and all(_is_number(row[place]) for row in rows) for place in places]
    widths = [max(len(line[place]) for line in lines) for place in places]
    return "\n".join(
        "  ".join(
            line[place].rjust(widths[place]) if numeric[place] else line[place].ljust(widths[place])
            for place in places
        ).rstrip()
        for line in lines
    )


def can_ask() -> bool:
    """Whether somebody is there to answer a question."""
    return sys.stdin.isatty()


def repeat(picture: Callable[[], str], every_s: float) -> NoReturn:
    """Show a text on the terminal, made anew every so often, until Ctrl-C."""
    import time

    from rich.live import Live
    from rich.text import Text

    with Live(Text(picture()), auto_refresh=False) as live:
        while True:
            time.sleep(every_s)
            live.update(Text(picture()), refresh=True)


@contextmanager
def progress(label: str, expected: int | None) -> Iterator[Callable[..., None]]:
    """Show a bar on the terminal while the body runs; call what it gets for each thing done,
    or with how many are.

    Nothing is shown off a terminal, nor for a single thing.
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
    """Return a cell as people read it: numbers with commas, yes and no, `-` for nothing."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
