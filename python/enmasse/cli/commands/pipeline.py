"""`enmasse pipeline`: from the messages of streams to tables, live state and alerts."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.commands.pipeline_backfill import backfill
from enmasse.cli.commands.pipeline_package import FILE, Package, packed
from enmasse.cli.commands.pipeline_package import package as write_package
from enmasse.cli.options.invocation import Group
from enmasse.cli.options.shared import Data, Output, OutputForm

if TYPE_CHECKING:
    from threading import Event

    from enmasse.pipeline.paths import Paths
    from enmasse.resources import Pipeline

File = Annotated[
    Path, typer.Option("--file", "-f", metavar="FILE", help="The document of the pipeline.")
]
Master = Annotated[
    str,
    typer.Option(metavar="URL", help="Where Spark runs: in this process, or spark://HOST:PORT."),
]
DOCUMENT = Path("pipeline.yaml")
DEFAULT_URL = "amqp://127.0.0.1:5672"
LOCAL = "local[*,4]"
"""Tasks for all cores, each with four attempts as on a cluster, because a worker may die."""
STOP_TIMEOUT_S = 60.0
PORT_MAX = 65_535

app = Group(no_args_is_help=True, help=("Process streams into tables, live state and alerts."))


@app.command()
def init(
    file: File = DOCUMENT,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The server of the first source; by default the local platform."
        ),
    ] = None,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The stream to read.")
    ] = "readings",
    infer: Annotated[
        bool,
        typer.Option("--infer", help="Take `metrics` and `timeUnit` from the first messages."),
    ] = False,
    data: Data = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Write a commented document that runs, and its schema for editors next to it.

    --infer reads the first 1,000 messages, whose bodies are JSON; a run never infers.

    Example: enmasse pipeline init --address readings
    """
    from enmasse.base.errors import Code, Conflict, Unavailable
    from enmasse.cli.output.printing import show
    from enmasse.pipeline import template
    from enmasse.resources import load

    server = url or _platform_url(data)
    text = template.document(server, address)
    load(text, str(file))
    if infer:
        needs_spark()
        from enmasse.pipeline.infer import infer as infer_fields

        found = infer_fields(server, address)
        text = template.document(server, address, found.metrics(), found.time_unit)
        load(text, str(file))
    schema = file.with_name(template.SCHEMA_FILE)
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
        schema.write_text(template.schema(), encoding="utf-8")
    except FileExistsError:
        raise Conflict(Code.ALREADY_EXISTS, f"{file} exists; choose another file with -f") from None
    except OSError as error:
        raise Unavailable(Code.DATA_UNUSABLE, f"cannot write {file}: {error.strerror}") from None
    written = {"file": str(file), "schema": str(schema)}
    show(written, output, lambda: f"{file} is written; run it with: enmasse pipeline run -f {file}")


@app.command()
def run(
    file: File = DOCUMENT,
    once: Annotated[
        bool, typer.Option("--once", help="Read the available messages, and end.")
    ] = False,
    master: Master = LOCAL,
    package: Package = str(FILE),
    metrics_port: Annotated[
        str,
        typer.Option(
            metavar="PORT", help="Loopback port of /metrics; 0: a free one, see `status`; or off."
        ),
    ] = "0",
    report_to: Annotated[
        str | None,
        typer.Option(
            "--report",
            metavar="NAMESPACE",
            help="Show the state in the console, on the page of the Pipeline of this namespace.",
        ),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the stack traces of Python and Spark.")
    ] = False,
    output: OutputForm = Output.TABLE,
) -> None:
    """Read the sources and fill the tables, until Ctrl-C or `enmasse pipeline stop`.

    With --output json or yaml, stdout has a line for the start and one for each batch.

    Example: enmasse pipeline run -f pipeline.yaml
    """
    import threading
    from contextlib import closing

    pipeline, paths = document_of(file)
    port = _port(metrics_port)
    _needs_driver(master)
    needs_java()

    from enmasse.base.clock import SystemClock
    from enmasse.cli.resources.pipeline_reports import reporting
    from enmasse.pipeline import metrics
    from enmasse.pipeline.ingest import batches
    from enmasse.pipeline.live.database import Live
    from enmasse.pipeline.run import Run
    from enmasse.pipeline.session import session

    batches.check(pipeline, paths)
    batches.load_steps(pipeline, paths)
    clock, stop, report = SystemClock(), threading.Event(), _reporter(output)
    name, memory, archive = pipeline.metadata.name, pipeline.spec.memory, packed(master, package)
    _stop_start_on_sigterm(lambda: report(*_stopped(name)))
    with (
        _stack_traces(debug),
        paths.locked() as publish,
        closing(Live(paths.live_url, pipeline.spec, name)) as live,
    ):
        # In order of dependency: the lock, live state, Spark, then metrics. Queries stop first.
        begun = clock.monotonic()
        report({"event": "starting", "pipeline": name}, f"{name}: starting Spark, some seconds ..")
        with session(name, master, memory, paths.state, archive, shows_traces=debug) as spark:
            _stop_on_signals(stop)
            queries = Run(spark, pipeline, paths, live, clock)
            collector = metrics.PipelineCollector(name, live, queries.lags, queries.gold, clock)
            with metrics.serve(collector, port) as metrics_url:
                publish(metrics_url)
                try:
                    queries.start(lambda batch: report(*_committed(batch)), once=once)
                    report(*_started(name, clock.monotonic() - begun, metrics_url))
                    with reporting(pipeline, paths, report_to):
                        queries.watch(stop)
                finally:
                    queries.stop()
    report(*_stopped(name))


@app.command()
def status(file: File = DOCUMENT, output: OutputForm = Output.TABLE) -> None:
    """Show the lag of the sources, the rows written, and the devices. The exit code is 1 while a
    source or the gold query fails.

    Example: enmasse pipeline status --output json
    """
    from enmasse.base.clock import SystemClock
    from enmasse.cli.errors import FAILED
    from enmasse.cli.output.printing import show
    from enmasse.cli.resources.pipeline_reports import status_of

    pipeline, paths = document_of(file)
    document = status_of(pipeline, paths, SystemClock().now().timestamp())
    show(document, output, lambda: _status_text(document))
    if any(one["trouble"] is not None for one in [*document["sources"], document["gold"]]):
        raise typer.Exit(FAILED)


@app.command()
def stop(file: File = DOCUMENT, output: OutputForm = Output.TABLE) -> None:
    """End the run of a pipeline after its batch, and return when it has ended.

    Example: enmasse pipeline stop
    """
    import os
    import signal
    import time

    from enmasse.base.clock import SystemClock
    from enmasse.base.errors import Code, Unavailable
    from enmasse.cli.output.printing import show

    pipeline, paths = document_of(file)
    clock, name = SystemClock(), pipeline.metadata.name
    pid = paths.running_pid()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = clock.monotonic() + STOP_TIMEOUT_S
        while paths.running_pid() == pid:
            if clock.monotonic() > deadline:
                raise Unavailable(
                    Code.NOT_AVAILABLE, f"process {pid} does not end; kill it: kill -9 {pid}"
                )
            time.sleep(0.1)
    text = f"{name}: stopped" if pid else f"{name}: is not running"
    show({"pipeline": name, "stopped": pid is not None, "pid": pid}, output, lambda: text)


app.command()(backfill)
app.command("package")(write_package)


@app.command()
def reconcile(
    file: File = DOCUMENT,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this source; by default all.")
    ] = None,
    start: Annotated[
        str,
        typer.Option(metavar="PLACE", help='earliest, a time, or offsets: {"0": 17, "1": 4}.'),
    ] = "earliest",
    end: Annotated[
        str, typer.Option(metavar="PLACE", help="End of the range, in the same form.")
    ] = "latest",
    master: Master = LOCAL,
    package: Package = str(FILE),
    output: OutputForm = Output.TABLE,
) -> None:
    """Verify that bronze has each message of the streams exactly once, and that gold matches the
    readings. Messages that no batch has read yet are counted. Differences are shown with their
    offsets, and the exit code is 1.

    Example: enmasse pipeline reconcile --source readings
    """
    from enmasse.base.errors import Code, Missing
    from enmasse.cli.errors import FAILED
    from enmasse.cli.output.printing import show

    pipeline, paths = document_of(file)

    from deltalake import DeltaTable

    from enmasse.pipeline.ingest import batches, lag, report
    from enmasse.pipeline.ingest.store import Store
    from enmasse.pipeline.session import CONNECT, check_reachable, session

    if not master.startswith(CONNECT):
        needs_java()

    chosen = [one for one in pipeline.spec.sources if source in (None, one.name)]
    if not chosen:
        raise Missing(Code.NOT_FOUND, f"{file} has no source {source!r}")
    batches.check(pipeline, paths)
    name, memory = pipeline.metadata.name, pipeline.spec.memory
    typer.echo(f"{name}: starting Spark, some seconds ..", err=True)
    with session(
        *(name, master, memory, paths.state, packed(master, package)),
        shows_progress=sys.stderr.isatty(),
    ) as spark:
        check_reachable(spark, paths.tables)
        store = Store(pipeline, paths)
        windows = report.gold(spark, store)
        compared = []
        has_bronze = DeltaTable.is_deltatable(store.bronze.path)
        for one in chosen:
            read = lag.position(paths.checkpoint(one.name))
            if read is None and not has_bronze:
                # the pipeline has not run yet
                read = {}
            options = batches.options(one, paths)
            compared.append(report.source(spark, one.name, options, store, start, end, read))
    # Printed in either case: the exit code only summarises the differences.
    found: dict[str, Any] = {"pipeline": name, "sources": compared, "gold": windows}
    exact = all(one["exact"] for one in [*compared, windows])
    show(found | {"exact": exact}, output, lambda: report.text(found))
    if not exact:
        raise typer.Exit(FAILED)


def _stop_start_on_sigterm(report: Callable[[], None]) -> None:
    """End with code 0 on SIGTERM: until Spark runs there is no batch to wait for."""
    import signal

    def stop(*_: object) -> None:
        report()
        sys.exit()

    signal.signal(signal.SIGTERM, stop)


def _stop_on_signals(stop: "Event") -> None:
    """Stop after the batch in progress on SIGTERM and SIGINT."""
    import signal

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())


@contextmanager
def _stack_traces(are_wanted: bool) -> Iterator[None]:
    """Write the stack traces of an error and its causes to stderr."""
    try:
        yield
    except Exception as error:
        if are_wanted:
            import traceback

            from enmasse.pipeline.failures import text_of

            traceback.print_exc()
            print(text_of(error), file=sys.stderr)
        raise


def document_of(file: Path) -> "tuple[Pipeline, Paths]":
    """Return the pipeline of a file and its paths."""
    needs_spark()

    from enmasse.pipeline.paths import read

    return read(file)


def _platform_url(data: Path | None) -> str:
    """Return the URL of the local platform; without one, its default URL."""
    from enmasse.base.errors import Unavailable
    from enmasse.cli.connect.servers import Server

    try:
        return Server(None, data, None, None).platform_url()
    except Unavailable:
        return DEFAULT_URL


def needs_spark() -> None:
    """Raise Unavailable if Spark is not installed."""
    from importlib.util import find_spec

    from enmasse.base.errors import Code, Unavailable

    if find_spec("pyspark") is None:
        raise Unavailable(
            Code.NOT_AVAILABLE, "Spark is not installed: pip install 'enmasse[spark]'"
        )


def needs_java() -> None:
    """Raise Unavailable if Java is missing."""
    import os
    import shutil

    from enmasse.base.errors import Code, Unavailable

    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        raise Unavailable(
            Code.NOT_AVAILABLE,
            "Spark needs Java 17 or newer, and there is no `java`: install it"
            " (Debian: apt-get install default-jre-headless), or set JAVA_HOME",
        )


def _needs_driver(master: str) -> None:
    """Raise Invalid for Spark Connect, which would run callbacks of a batch in the server."""
    from enmasse.base.errors import Code, Invalid
    from enmasse.pipeline.session import CONNECT

    if master.startswith(CONNECT):
        raise Invalid(
            Code.REQUEST_INVALID,
            f"--master {master}: a run needs the driver of its queries in its own process, not in a"
            " server: name the cluster itself, spark://HOST:PORT (`reconcile` takes sc://)",
        )


def _port(text: str) -> int | None:
    from enmasse.base.errors import Code, Invalid

    if text == "off":
        return None
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise Invalid(Code.REQUEST_INVALID, f"--metrics-port is {text!r}: a port, 0 or off")
    return int(text)


def _reporter(output: Output) -> Any:
    """Return a function that reports a run: JSON or YAML on stdout, or text on stderr."""
    import json
    import sys

    def report(event: dict[str, Any], text: str) -> None:
        if output is Output.TABLE:
            print(text, file=sys.stderr, flush=True)
        else:
            # A JSON object is also YAML.
            print(f"{'--- ' if output is Output.YAML else ''}{json.dumps(event)}", flush=True)

    return report


def _committed(batch: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the report of a batch, and its text."""
    return {"event": "batch"} | batch, _line(batch)


def _stopped(name: str) -> tuple[dict[str, Any], str]:
    """Return the report of the end, and its text."""
    return {"event": "stopped"}, f"{name}: stopped"


def _started(name: str, seconds: float, metrics_url: str | None) -> tuple[dict[str, Any], str]:
    """Return the report of the start, and its text."""
    took_s = round(seconds, 1)
    text = f"{name}: started in {took_s} s" + (f"; {metrics_url}" if metrics_url else "")
    return {"event": "running", "seconds": took_s, "metrics": metrics_url}, text


def _line(batch: dict[str, Any]) -> str:
    again = ", done before" if batch["again"] else ""
    return (
        f"{batch['source']}: batch {batch['batch']}: {batch['messages']:,} messages,"
        f" {batch['readings']:,} readings, {batch['quarantined']:,} quarantined{again}"
    )


def _status_text(document: dict[str, Any]) -> str:
    from enmasse.cli.output.printing import columns

    running = f"running as process {document['pid']}" if document["running"] else "not running"
    if document["metrics"]:
        running += f", {document['metrics']}"
    incidents = sum(document["incidents"].values())
    lines = [
        f"{document['pipeline']}: {running}; tables in {document['tables']}",
        f"devices {document['devices']:,}, online {document['online']:,},"
        f" unknown {document['unknown']:,}; incidents"
        f" {incidents:,}, open {document['openIncidents']:,}; alerts"
        f" sent {document['alerts']['sent']:,}, waiting {document['alerts']['waiting']:,},"
        f" rejected {document['alerts']['rejected']:,}",
    ]
    if sources := document["sources"]:
        names = [name for name in sources[0] if name not in ("written", "trouble")]
        rows = [[one[name] for name in names] for one in sources]
        lines.append(columns([name.upper() for name in names], rows))
    for one in sources:
        counts = [f"{target} {count:,}" for target, count in one["written"].items()]
        lines.append(f"{one['source']}: rows out: {', '.join(counts) or 'none'}")
        if (failure := one["trouble"]) is not None:
            lines.append(f"{one['source']}: fails since {_details(failure)}")
    gold = document["gold"]
    lines.append(
        f"gold: {gold['versionsBehind']:,} versions of silver behind, {gold['lagSeconds']:.0f} s"
    )
    if (failure := gold["trouble"]) is not None:
        lines.append(f"gold: fails since {_details(failure)}")
    for address, failure in document["refusingAddresses"].items():
        lines.append(f"{address}: accepts no alerts since {_details(failure)}")
    return "\n".join(lines)


def _details(failure: "dict[str, Any]") -> str:
    return f"{failure['since']}, tried again {failure['tries']} times: {failure['error']}"
