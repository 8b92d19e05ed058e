"""`enmasse pipeline package`: the dependencies of a cluster's executors in one file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from enmasse.cli.options.shared import Output, OutputForm

FILE = Path("enmasse-package.tar.gz")
OFF = "off"

Package = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="Output of `pipeline package`, for a cluster; off: the executors have it installed.",
    ),
]


def package(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = FILE,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An additional distribution, for your functions."),
    ] = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Pack everything that the executors of a cluster import into one archive.

    The archive contains the versions installed here, with the native core. The cluster needs Spark
    and the same minor version of Python.

    Example: enmasse pipeline package --also scikit-learn
    """
    from enmasse.cli.commands.pipeline import needs_spark
    from enmasse.cli.output.printing import show

    needs_spark()

    from enmasse.pipeline import package as packages

    written = packages.write(file, also or ())
    show(written, output, lambda: _text(written))


def packed(master: str, named: str) -> Path | None:
    """Return the package to send to the executors, or None."""
    from enmasse.pipeline.session import CONNECT, is_local

    stays = is_local(master) or master.startswith(CONNECT) or named == OFF
    return None if stays else Path(named)


def _text(written: dict[str, Any]) -> str:
    size_mb = written["bytes"] / 1e6
    names = ", ".join(written["distributions"])
    return (
        f"{written['file']}: {size_mb:.0f} MB for {written['python']}: enmasse, {names}\n"
        "use it: enmasse pipeline run --master spark://HOST:PORT"
    )
