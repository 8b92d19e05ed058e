"""`enmasse pipeline package`: what the executors of a cluster need, in one file."""

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
        help="What `pipeline package` wrote, for a cluster; off: executors have it themselves.",
    ),
]


def package(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = FILE,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further distribution, for your functions."),
    ] = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Put all that the executors of a cluster import into one archive, native core and all.

    It is made of what is installed here; the cluster needs Spark, and Python of the same minor
    version.

    Example: enmasse pipeline package --also scikit-learn
    """
    from enmasse.cli.commands.pipeline import needs_spark
    from enmasse.cli.output.printing import show

    needs_spark()

    from enmasse.pipeline import package as packages

    written = packages.write(file, also or ())
    show(written, output, lambda: _text(written))


def packed(master: str, named: str) -> Path | None:
    """Return the package that travels to where Spark runs, if one does."""
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
