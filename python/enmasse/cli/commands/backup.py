"""`enmasse backup` and `enmasse restore`: all resources and messages in one file."""

from pathlib import Path
from typing import Annotated

import typer

from enmasse.cli.options.invocation import Reporting
from enmasse.cli.options.shared import Data, Output, OutputForm

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, a gzipped tar.")]


def backup(
    file: File,
    secrets: Annotated[
        bool,
        typer.Option(
            "--secrets", help="Also Secrets, the CA with its key, and the tokens of the platform."
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace FILE if it exists.")
    ] = False,
    *,
    call: Reporting,
) -> None:
    """Write all resources and all stored messages into a file, while the platform runs.

    The backup contains everything that was acknowledged before the command began. The command
    verifies the file before it gives it its final name. Only you can read the file: it contains
    messages, and the verifiers of users' passwords, but no passwords.

    Examples:

      enmasse backup monday.tar.gz

      enmasse backup everything.tar.gz --secrets
    """
    from enmasse.base.errors import Code, Conflict
    from enmasse.cli.output.printing import show
    from enmasse.cli.serve.restore import lines
    from enmasse.store.archive import Archive

    if file.exists() and not overwrite:
        raise Conflict(
            Code.ALREADY_EXISTS, f"{file} exists; choose another name, or add --overwrite"
        )
    temporary = file.with_name(f".{file.name}.new")
    try:
        with call.api() as api:
            api.download("backup", {"secrets": "true"} if secrets else {}, temporary)
        manifest = Archive(temporary).check()
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    document = {"file": str(file), "bytes": file.stat().st_size} | manifest.about
    show(document, call.output, lambda: lines(f"{file} has", manifest.about))


def restore(
    file: File,
    data: Data = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="sqlite|URL",
            help="Store of resources, as in `enmasse up`.",
            show_default="sqlite",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help=("Replace the contents of the folder and the store.")),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Remove Keycloak realms of spaces created since the backup.",
        ),
    ] = False,
    output: OutputForm = Output.TABLE,
) -> None:
    """Restore a backup into a data folder that no platform uses. Then start the platform there.

    The command verifies the file first; at the end it reads and counts the restored data. Addresses
    keep their identity; messages keep their order and properties.

    Examples:

      enmasse restore monday.tar.gz --data ./fresh

      enmasse restore monday.tar.gz --overwrite
    """
    import asyncio
    import os

    from enmasse.base import log
    from enmasse.base.settings import load
    from enmasse.cli.output.printing import show
    from enmasse.cli.serve.restore import lines, restored

    log.configure("warning")
    settings, _ = load({"data": data, "store": store}, os.environ)
    about = asyncio.run(restored(file, settings, overwrite=overwrite, prune=prune))
    place = str(settings.data)
    show({"data": place} | about, output, lambda: lines(f"{place} has", about))
