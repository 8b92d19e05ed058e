"""`enmasse pipeline demo`: real series through the platform, and how well they are judged."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.options import Data, Output, OutputForm, ServerUrl, TokenFile

if TYPE_CHECKING:
    from enmasse.pipeline.demo import Outcome

PICTURE = "demo.png"


def demo(
    folder: Annotated[
        Path, typer.Option("--folder", metavar="DIR", help="A new folder for all it makes.")
    ] = Path("demo"),
    speed: Annotated[
        float | None,
        typer.Option(
            metavar="TIMES",
            min=1e-6,
            help="So many times as fast as life; by default as fast as the platform takes it.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="AMQP server; by default the platform's own."),
    ] = None,
    output: OutputForm = Output.TABLE,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Publish real sensor series, let a pipeline find what is wrong in them, and draw it.

    Labelled water flow and shuttle sensors, temperatures of Seattle and San Francisco. At the end
    precision and recall of the detectors, and a picture. The platform has to run.

    Example: enmasse pipeline demo --speed 1000000
    """
    from enmasse.cli.commands.pipeline import document_of, needs_java
    from enmasse.cli.connect import Server
    from enmasse.cli.output import show

    _needs_packages()
    needs_java()
    found_url = Server(url, data, None, None).found_url()
    _declare((data, server, token_file))
    outcome = _run(folder, found_url, speed, document_of, output)
    picture = folder / PICTURE
    said = _document(outcome, picture)
    show(said, output, lambda: _text(outcome, picture))


def _needs_packages() -> None:
    from importlib.util import find_spec

    from enmasse.base.errors import Code, Unavailable

    missing = [
        name
        for name in ("pyspark", "river", "vega_datasets", "matplotlib")
        if find_spec(name) is None
    ]
    if missing:
        raise Unavailable(
            Code.NOT_AVAILABLE, f"{missing[0]} is not installed: pip install 'enmasse[demo]'"
        )


def _declare(place: tuple[Path | None, str | None, Path | None]) -> None:
    """See that the streams of the demo are there."""
    from enmasse.base.errors import Conflict
    from enmasse.cli.client import Api
    from enmasse.pipeline.demo import ALERTS, READINGS
    from enmasse.resources import API_VERSION
    from enmasse.resources.naming import resource_name

    with Api.find(*place) as api:
        for address in (READINGS, ALERTS):
            metadata = {"name": resource_name("default", address), "namespace": "default"}
            spec = {"type": "topic", "address": address, "retention": {"age": "1d"}}
            document = {"apiVersion": API_VERSION, "kind": "Address"}
            try:
                made = api.create("addresses", document | {"metadata": metadata, "spec": spec})
            except Conflict:
                continue
            api.wait_ready("addresses", made)


def _run(folder: Path, url: str, speed: float | None, opened: Any, output: Output) -> "Outcome":
    import sys
    from contextlib import closing

    from enmasse.base.clock import SystemClock
    from enmasse.cli.commands.pipeline import LOCAL
    from enmasse.cli.output import progress
    from enmasse.pipeline import demo, demo_data, demo_picture
    from enmasse.pipeline.live.database import Live
    from enmasse.pipeline.session import session

    clock = SystemClock()

    def say(text: str) -> None:
        if output is Output.TABLE:
            print(text, file=sys.stderr, flush=True)

    server = demo.server(url)
    begins = {name: demo.end_of(server, name) for name in (demo.READINGS, demo.ALERTS)}
    file = _made(folder, demo.document(server, begins[demo.READINGS]))
    pipeline, places = opened(file)
    say("reading the series ..")
    series = demo_data.load()
    total = sum(len(one.times_us) for one in series)
    with (
        places.taken(),
        closing(Live(places.live_url, pipeline.spec, pipeline.metadata.name)) as live,
    ):
        say("starting Spark, some seconds ..")
        with session("demo", LOCAL, pipeline.spec.memory, places.state) as spark:
            begun = clock.monotonic()
            with progress("published", total) as published, progress("judged", total) as judged:

                def told(batch: dict[str, Any]) -> None:
                    for _ in range(batch["messages"]):
                        judged()

                def send(pause: demo.Pause) -> int:
                    return demo.publish(series, server, speed, clock, pause, published)

                messages = demo.run(spark, pipeline, places, live, clock, send, told)
            took_s = clock.monotonic() - begun
        alerts = demo.received(server, demo.ALERTS, begins[demo.ALERTS])
        outcome = demo.outcome(series, live, alerts, messages, took_s)
    say("drawing ..")
    demo_picture.draw(series, outcome, folder / PICTURE)
    return outcome


def _made(folder: Path, document: str) -> Path:
    """Make the folder and the document of the pipeline in it."""
    from enmasse.base.errors import Code, Conflict, Unavailable

    try:
        folder.mkdir(parents=True)
        file = folder / "pipeline.yaml"
        file.write_text(document, encoding="utf-8")
    except FileExistsError:
        raise Conflict(
            Code.ALREADY_EXISTS, f"{folder} is there already; name another with --folder"
        ) from None
    except OSError as error:
        raise Unavailable(Code.DATA_UNUSABLE, f"cannot write {folder}: {error.strerror}") from None
    return file


def _document(outcome: "Outcome", picture: Path) -> dict[str, Any]:
    return {
        "messages": outcome.messages,
        "seconds": round(outcome.seconds, 1),
        "incidents": len(outcome.incidents),
        "alerts": len(outcome.alerts),
        "alertsOnce": len({alert["id"] for alert in outcome.alerts}) == len(outcome.alerts),
        "detectors": [
            {
                "device": one.device,
                "readings": one.readings,
                "labelled": one.labelled,
                "found": one.found,
                "precision": round(one.precision, 4),
                "recall": round(one.recall, 4),
                "segments": one.segments,
                "segmentsFound": one.segments_found,
            }
            for one in outcome.judgements
        ],
        "picture": str(picture),
    }


def _text(outcome: "Outcome", picture: Path) -> str:
    from enmasse.cli.output import columns

    rate = outcome.messages / outcome.seconds if outcome.seconds else 0.0
    rows = [
        [
            one.device,
            one.readings,
            one.labelled,
            one.found,
            f"{one.precision:.3f}",
            f"{one.recall:.3f}",
            f"{one.segments_found} of {one.segments}",
        ]
        for one in outcome.judgements
    ]
    names = ["DEVICE", "READINGS", "LABELLED", "FOUND", "PRECISION", "RECALL", "SEGMENTS"]
    return "\n".join(
        [
            f"{outcome.messages:,} messages in {outcome.seconds:.1f} s ({rate:,.0f}/s);"
            f" {len(outcome.incidents):,} incidents, {len(outcome.alerts):,} alerts received",
            columns(names, rows),
            f"picture: {picture}",
        ]
    )
