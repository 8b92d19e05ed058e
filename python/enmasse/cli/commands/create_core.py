"""`enmasse create namespace|secret|configmap`, and `create -f`: kinds that contain data only."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.cli.options.invocation import Group, Namespaced, NamespacedReporting, Reporting
from enmasse.cli.options.shared import Output, Recursive, SomeFiles

if TYPE_CHECKING:
    from enmasse.cli.connect.client import Api

Literals = Annotated[
    list[str] | None,
    typer.Option("--from-literal", metavar="KEY=VALUE", help="Key and value; repeatable."),
]
FromFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--from-file",
        metavar="[KEY=]FILE",
        help="Key (default: the file name) and file; repeatable.",
    ),
]
Name = Annotated[str, typer.Argument(help="Name of the resource.")]

secrets = Group(no_args_is_help=True, help="Declare a Secret.")


def files(
    context: typer.Context,
    file: SomeFiles = None,
    recursive: Recursive = False,
    *,
    call: Namespaced,
) -> None:
    """Create the resources of files; existing ones are refused.

    Example: enmasse create -f addresses.yaml
    """
    if context.invoked_subcommand is not None:
        return
    if not file:
        raise typer.BadParameter("must specify one of -f and a kind", param_hint="-f")
    from enmasse.cli.resources.files import load_files
    from enmasse.resources import in_order

    resources = in_order(load_files(file, recursive=recursive, namespace=call.namespace))
    with call.api() as api:
        for one in resources:
            api.create(one.plural, one.document())
            print(f"{one.key} created")


def namespace(
    name: Name,
    *,
    call: Reporting,
) -> None:
    """Declare a namespace. The first resource in a namespace also creates it.

    Example: enmasse create namespace shop
    """
    with call.api() as api:
        _create(api, "Namespace", {"name": name}, {}, call.output)


@secrets.command()
def generic(
    name: Name,
    from_literal: Literals = None,
    from_file: FromFiles = None,
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help="Type of the Secret.")] = (
        "Opaque"
    ),
    *,
    call: NamespacedReporting,
) -> None:
    """Declare a Secret from files or texts.

    Example: enmasse create secret generic alice --from-file password=alice.pw
    """
    content = {"type": type_, "data": _encoded(from_literal, from_file)}
    with call.api() as api:
        _create(api, "Secret", {"name": name, "namespace": call.namespace}, content, call.output)


def configmap(
    name: Name,
    from_literal: Literals = None,
    from_file: FromFiles = None,
    *,
    call: NamespacedReporting,
) -> None:
    """Declare a ConfigMap from files or texts.

    Example: enmasse create configmap settings --from-literal colour=green
    """
    import base64

    texts: dict[str, str] = {}
    other: dict[str, str] = {}
    for key, value in _encoded(from_literal, from_file).items():
        try:
            texts[key] = base64.b64decode(value).decode()
        except UnicodeDecodeError:
            other[key] = value
    content = {"data": texts, "binaryData": other}
    with call.api() as api:
        _create(api, "ConfigMap", {"name": name, "namespace": call.namespace}, content, call.output)


def _encoded(literals: list[str] | None, given: list[str] | None) -> dict[str, str]:
    """Return keys and values of options, in base64.

    Raises: BadParameter for an option without a key, a duplicate key, or an unreadable file.
    """
    import base64
    from pathlib import Path

    found: dict[str, str] = {}
    for is_file, text in [
        *((False, one) for one in literals or ()),
        *((True, one) for one in given or ()),
    ]:
        hint = "--from-file" if is_file else "--from-literal"
        key, equals, value = text.partition("=")
        # As kubectl: a file without a key is stored under its own name.
        if is_file and not equals:
            key, value = Path(text).name, text
        elif not equals or not key:
            raise typer.BadParameter("write KEY=VALUE", param_hint=hint)
        if key in found:
            raise typer.BadParameter(f"duplicate key {key!r}", param_hint=hint)
        try:
            content = Path(value).read_bytes() if is_file else value.encode()
        except OSError as error:
            raise typer.BadParameter(f"{value}: {error.strerror}", param_hint=hint) from None
        found[key] = base64.b64encode(content).decode()
    return found


def _create(
    api: "Api", kind: str, metadata: dict[str, str], content: dict[str, Any], output: Output
) -> None:
    from enmasse.cli.output.printing import show
    from enmasse.cli.resources import kinds

    document = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}
    created = api.create(kinds.named(kind).plural, document)
    show(created, output, lambda: f"{kind} {metadata['name']} created")
