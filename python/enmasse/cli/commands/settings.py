"""`enmasse settings`: the effective settings of `enmasse up`, and their sources."""

from pathlib import Path
from typing import Annotated

import typer

from enmasse.cli.options.shared import Output, OutputForm


def settings(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings as a TOML file.")
    ] = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show every setting: its value here, the source of the value, and its description.

    Example: ENMASSE_AMQP_PORT=0 enmasse settings
    """
    import os

    from enmasse.base.settings import Settings, load
    from enmasse.cli.output.printing import columns, show

    values, origins = load({}, os.environ, config)
    fields = Settings.model_fields
    document = [
        {
            "name": name.replace("_", "-"),
            "value": _plain(name, getattr(values, name)),
            "origin": origins[name],
            "description": (field.description or "").replace("\n", " "),
        }
        for name, field in fields.items()
    ]
    rows = [[str(one) for one in entry.values()] for entry in document]
    show(document, output, lambda: columns(["SETTING", "VALUE", "ORIGIN", "DESCRIPTION"], rows))


def _plain(name: str, value: object) -> object:
    from enmasse.base.settings import without_password

    if value is None:
        return "off"
    if name == "store":
        return without_password(str(value))
    return str(value) if isinstance(value, Path) else value
