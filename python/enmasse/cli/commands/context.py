"""`enmasse context`: name platforms and select one of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.options.invocation import Group
from enmasse.cli.options.shared import Output, OutputForm

if TYPE_CHECKING:
    from enmasse.cli.connect.contexts import Context

app = Group(no_args_is_help=True, help="Manage contexts: named platforms.")

Name = Annotated[str, typer.Argument(help="Name of the context.")]
FROM_STDIN = "-"


def _option(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help)


@app.command("list")
def list_(output: OutputForm = Output.TABLE) -> None:
    """Show the contexts; the current one has a star.

    Example: enmasse context list
    """
    from enmasse.cli.connect.contexts import load
    from enmasse.cli.output.printing import columns, show

    known = load()
    rows = [
        [
            "*" if name == known.current else "",
            name,
            one.server or one.data,
            one.url,
            one.namespace,
            one.space,
        ]
        for name, one in known.contexts.items()
    ]
    headings = ["", "NAME", "SERVER", "URL", "NAMESPACE", "SPACE"]
    show(known.document(), output, lambda: columns(headings, rows))


@app.command()
def use(name: Name) -> None:
    """Make a context the current one.

    Example: enmasse context use shop
    """
    from enmasse.cli.connect.contexts import Contexts, load, save

    known = load()
    known.named(name)
    save(Contexts(name, known.contexts))
    print(f"context {name} is the current one")


@app.command("set")
def set_(
    name: Name,
    server: Annotated[str | None, _option("URL", "HTTP API.")] = None,
    ca: Annotated[Path | None, _option("FILE", "CA of the server certificates.")] = None,
    token_file: Annotated[Path | None, _option("FILE", "File with the API token.")] = None,
    token: Annotated[
        str | None, _option("-", "Read the API token from standard input and store it.")
    ] = None,
    data: Annotated[
        Path | None, _option("DIR", "Data folder of a platform on this machine.")
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        _option("FILE", "Kubeconfig whose current context provides server, CA and token."),
    ] = None,
    url: Annotated[
        str | None,
        _option("URL", "Messaging server: amqp://[USER@]HOST[:PORT], also amqps, ws, wss."),
    ] = None,
    password_file: Annotated[
        Path | None, _option("FILE", "File with the password of the user in --url.")
    ] = None,
    namespace: Annotated[str | None, _option("NS", "Default namespace.")] = None,
    space: Annotated[str | None, _option("SPACE", "Default address space.")] = None,
) -> None:
    """Add or change a context. Omitted values stay unchanged. The first context becomes current.

    Examples:

      enmasse context set here --data ./data

      enmasse context set shop --server https://mq.example.com:6443 --ca ca.crt --token - < token
    """
    from enmasse.cli.connect.contexts import Context, Contexts, load, save

    given = {
        "server": server,
        "ca": _absolute(ca),
        "token_file": _absolute(token_file) or _from_stdin(name, token),
        "data": _absolute(data),
        "url": url,
        "password_file": _absolute(password_file),
        "namespace": namespace,
        "space": space,
    }
    found = {field: one for field, one in given.items() if one is not None}
    if kubeconfig is not None:
        found = _from_kubeconfig(name, kubeconfig) | found
    known = load()
    changed = known.contexts.get(name, Context()).changed(**found)
    _check(name, changed)
    save(Contexts(known.current or name, {**known.contexts, name: changed}))
    print(f"context {name} {'changed' if name in known.contexts else 'added'}")


@app.command()
def delete(name: Name) -> None:
    """Delete a context and its stored token.

    Example: enmasse context delete shop
    """
    from enmasse.cli.connect.contexts import Contexts, folder, load, save

    known = load()
    known.named(name)
    rest = {one: context for one, context in known.contexts.items() if one != name}
    current = None if known.current == name else known.current
    save(Contexts(current, rest))
    (folder() / f"{name}.token").unlink(missing_ok=True)
    (folder() / f"{name}.ca").unlink(missing_ok=True)
    print(f"context {name} deleted")


def _check(name: str, context: "Context") -> None:
    import re

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name):
        raise typer.BadParameter("use at most 63 letters, digits and . _ -", param_hint="NAME")
    if context.server and not context.server.startswith(("http://", "https://")):
        raise typer.BadParameter("begins with http:// or https://", param_hint="--server")
    if context.server and context.data:
        raise typer.BadParameter(
            "--data selects a platform on this machine and --server a remote"
            " one; set one of the two"
        )
    if context.server and not context.token_file:
        raise typer.BadParameter("--server needs --token-file or --token -")


def _absolute(path: Path | None) -> str | None:
    return str(path.expanduser().absolute()) if path else None


def _from_stdin(name: str, given: str | None) -> str | None:
    import sys

    from enmasse.cli.connect.contexts import keep_secret

    if given is None:
        return None
    if given != FROM_STDIN:
        raise typer.BadParameter(
            "a token on the command line is visible to other users; write `--token - < FILE`",
            param_hint="--token",
        )
    return keep_secret(name, "token", sys.stdin.read().strip())


def _from_kubeconfig(name: str, file: Path) -> dict[str, str]:
    """Return the settings of the current context of a kubeconfig.

    Raises: Invalid if it cannot be read, or does not log in with a token.
    """
    import base64

    import yaml

    from enmasse.base.errors import Code, Invalid
    from enmasse.cli.connect.contexts import keep_secret

    try:
        document = yaml.safe_load(file.read_text())
        parts = {
            kind: {one["name"]: one[kind] for one in document.get(f"{kind}s") or ()}
            for kind in ("context", "cluster", "user")
        }
        context = parts["context"][document["current-context"]]
        cluster, user = parts["cluster"][context["cluster"]], parts["user"][context["user"]]
        found = {"server": cluster["server"]}
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        raise Invalid(
            Code.DOCUMENT_UNREADABLE, f"{file} is not a kubeconfig with a current context"
        ) from None
    # Embedded secrets move to files of their own, as contexts hold paths only.
    if authority := cluster.get("certificate-authority"):
        found["ca"] = str(file.parent / authority)
    elif embedded := cluster.get("certificate-authority-data"):
        found["ca"] = keep_secret(name, "ca", base64.b64decode(embedded).decode().strip())
    if token_file := user.get("tokenFile"):
        found["token_file"] = str(file.parent / token_file)
    elif token := user.get("token"):
        found["token_file"] = keep_secret(name, "token", token)
    else:
        raise Invalid(
            Code.DOCUMENT_UNREADABLE,
            f"{file} does not use a token; create one and set --token-file",
        )
    if namespace := context.get("namespace"):
        found["namespace"] = namespace
    return found
