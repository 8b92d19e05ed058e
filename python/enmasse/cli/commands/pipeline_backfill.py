"""`enmasse pipeline backfill`: tables recomputed with the current document."""

import sys
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.options.shared import Output, OutputForm

if TYPE_CHECKING:
    from enmasse.pipeline.paths import Paths
    from enmasse.resources import Pipeline


def backfill(
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="The document of the pipeline.")
    ] = Path("pipeline.yaml"),
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this source; by default all.")
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help='First message: earliest, a time, or offsets: {"0": 17, "1": 4}.',
        ),
    ] = "earliest",
    end: Annotated[
        str, typer.Option(metavar="PLACE", help="Last message: latest, a time, or offsets.")
    ] = "latest",
    gold_only: Annotated[
        bool,
        typer.Option(
            "--gold-only", help="Recompute only gold from silver, as after a change of `windows`."
        ),
    ] = False,
    output: OutputForm = Output.TABLE,
) -> None:
    """Rebuild silver, quarantine and gold from bronze with the current document. Quarantined rows
    that are valid after a correction become readings. The pipeline must be stopped.

    No alerts are sent again, and incidents stay unchanged. After an interruption run it again.

    Example: enmasse pipeline backfill --source readings --start 2026-01-31T08:00:00Z
    """
    from enmasse.base.errors import Code, Invalid
    from enmasse.cli.commands.pipeline import document_of
    from enmasse.cli.output.printing import show

    pipeline, paths = document_of(file)
    if gold_only and (source, start, end) != (None, "earliest", "latest"):
        raise Invalid(Code.REQUEST_INVALID, "--gold-only rebuilds all of gold; omit the range")

    from enmasse.pipeline.ingest.backfill import Backfill, Part
    from enmasse.pipeline.live.database import Live

    # The lock of the tables comes first: no run may write while they are replaced.
    with ExitStack() as stack:
        stack.enter_context(paths.locked())
        live = stack.enter_context(
            closing(Live(paths.live_url, pipeline.spec, pipeline.metadata.name))
        )
        work = Backfill(pipeline, paths, live)
        sources = [one.name for one in pipeline.spec.sources] if source is None else [source]
        asked = [] if gold_only else [Part(name, start, end) for name in sources]
        parts = work.parts(asked)
        document: dict[str, Any] = {"pipeline": pipeline.metadata.name, "sources": []}
        spark = stack.enter_context(_spark(pipeline, paths))
        if parts:
            document["sources"] = [asdict(one) for one in work.run(spark, parts)]
        document["windows"] = work.gold(spark, whole=gold_only)
        work.finish(parts)
    show(document, output, lambda: _text(document))


def _spark(pipeline: "Pipeline", paths: "Paths") -> Any:
    """Start Spark, which decodes messages and computes gold."""
    from enmasse.cli.commands.pipeline import LOCAL, needs_java

    needs_java()
    typer.echo(f"{pipeline.metadata.name}: starting Spark, some seconds ..", err=True)

    from enmasse.pipeline.session import session

    return session(
        *(pipeline.metadata.name, LOCAL, pipeline.spec.memory, paths.state),
        shows_progress=sys.stderr.isatty(),
    )


def _text(document: dict[str, Any]) -> str:
    lines = [
        f"{one['source']}: {one['messages']:,} messages are now {one['readings']:,} readings,"
        f" {one['quarantined']:,} quarantined"
        for one in document["sources"]
    ]
    return "\n".join([*lines, f"gold is up to date: {document['windows']:,} windows"])
