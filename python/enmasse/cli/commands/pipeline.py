"""`enmasse pipeline`: from the messages of streams to tables, live state and alerts."""

from pathlib import Path
from typing import Annotated

import typer

from enmasse.cli.options import Output, OutputForm

File = Annotated[
    Path, typer.Option("--file", "-f", metavar="FILE", help="The document of the pipeline.")
]
DOCUMENT = Path("pipeline.yaml")

app = typer.Typer(
    no_args_is_help=True, help="Turn the messages of streams into tables, live state and alerts."
)


@app.command()
def init(
    file: File = DOCUMENT,
    url: Annotated[
        str, typer.Option(metavar="URL", help="The server of the first source.")
    ] = "amqp://127.0.0.1:5672",
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The stream that it reads.")
    ] = "readings",
    output: OutputForm = Output.TABLE,
) -> None:
    """Write a commented document that runs, and its schema for editors beside it.

    Example: enmasse pipeline init --address readings
    """
    from enmasse.base.errors import Code, Conflict, Unavailable
    from enmasse.cli.output import show
    from enmasse.pipeline import starter
    from enmasse.resources import load

    text = starter.document(url, address)
    load(text, str(file))
    schema = file.with_name(starter.SCHEMA_FILE)
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
        schema.write_text(starter.schema(), encoding="utf-8")
    except FileExistsError:
        raise Conflict(
            Code.ALREADY_EXISTS, f"{file} is there already; name another with -f"
        ) from None
    except OSError as error:
        raise Unavailable(Code.DATA_UNUSABLE, f"cannot write {file}: {error.strerror}") from None
    written = {"file": str(file), "schema": str(schema)}
    show(written, output, lambda: f"{file} is written; run it with: enmasse pipeline run -f {file}")
