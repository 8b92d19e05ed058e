"""`enmasse apply`: make what is declared equal to files."""

from typing import Annotated

import typer

from enmasse.cli.options import Data, ServerUrl, TokenFile, Wait


def apply(
    file: Annotated[
        list[str],
        typer.Option("--file", "-f", metavar="FILE", help="YAML or JSON; `-` is standard input."),
    ],
    wait: Wait = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the platform check everything; change nothing.")
    ] = False,
    data: Data = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Add and change the resources of files. Nothing is deleted.

    What others need is applied before them: spaces first, then addresses that others refer to. What
    is in no file stays as it is.

    Examples:

      enmasse apply -f addresses.yaml

      enmasse apply -f addresses.yaml --dry-run
    """
    from enmasse.cli.client import Api
    from enmasse.cli.files import load_files
    from enmasse.resources import in_order

    resources = in_order(load_files(file))
    with Api.find(data, server, token_file) as api:
        applied = []
        for resource in resources:
            document = resource.document()
            now, change = api.apply(resource.plural, document, dry_run=dry_run)
            print(f"{resource.key} {change}{' (dry run)' if dry_run else ''}")
            applied.append((resource.plural, now))
        if wait and not dry_run:
            for plural, document in applied:
                if "isReady" in document.get("status", {}):
                    api.wait_ready(plural, document)
