"""`enmasse console`: open the web console."""

from typing import Annotated

import typer

from enmasse.cli.options.invocation import Invocation


def console(
    link: Annotated[
        bool, typer.Option("--print", help="Print the link and open no browser.")
    ] = False,
    *,
    call: Invocation,
) -> None:
    """Open the web console, logged in with the rights of your token.

    The link works once, within 60 seconds.

    Examples:

      enmasse console

      enmasse console --print
    """
    import webbrowser

    from enmasse.cli.errors import write_line

    with call.api() as api:
        url = api.console_link()
    if not link and webbrowser.open(url):
        write_line("opened the console in a browser")
        return
    print(url)
