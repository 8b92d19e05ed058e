"""Runs the native load generator with a progress bar."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from enmasse.native import run_load


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Run a load to its end and return its report."""
    if not sys.stderr.isatty():
        return run_load(options)
    columns = (
        TextColumn("{task.description:8}"),
        BarColumn(),
        TextColumn("{task.fields[count]:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=1.0, count=0)

        def step(phase: str, fraction: float, count: int) -> None:
            bar.update(task, description=phase, completed=fraction, count=count)

        return run_load(options, step)
