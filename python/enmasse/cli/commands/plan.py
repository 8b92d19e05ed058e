"""`enmasse plan`: the available plans, and the usage of quotas and allowances."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from enmasse.cli.options import completion
from enmasse.cli.options.invocation import Group, Reporting
from enmasse.cli.options.shared import AnyNamespace, Files

app = Group(no_args_is_help=True, help="Plans, and the usage of quotas and allowances.")

RESOURCES = ("router", "broker", "aggregate")
HEADINGS = (
    *("SPACE", "NAMESPACE", "PLAN", "ADDRESSES", *map(str.upper, RESOURCES)),
    *("PERIOD", "MESSAGES", "BYTES"),
)
FIELDS = ("field", "before", "after")


@app.command("list")
def list_(
    type_: Annotated[
        str | None,
        typer.Option("--type", "-t", metavar="TYPE", help="Only plans for this address type."),
    ] = None,
    *,
    call: Reporting,
) -> None:
    """Show the plans of address spaces with their quotas, and the address plans that they offer
    with the credit that counts against a quota.

    Example: enmasse plan list --type queue
    """
    from enmasse.cli.output.printing import columns, show

    with call.api() as api:
        schemas = api.list("addressspaceschemas", None)["items"]
    spaces = [
        {"kind": "AddressSpacePlan", "type": schema["metadata"]["name"]} | plan
        for schema in schemas
        for plan in schema["spec"].get("plans", ())
        if not type_
    ]
    # A plan of addresses is in each schema whose spaces may have it.
    wanted = {
        plan["name"]: {"kind": "AddressPlan", "type": of["name"]} | plan
        for schema in schemas
        for of in schema["spec"].get("addressTypes", ())
        for plan in of.get("plans", ())
        if type_ in (None, of["name"])
    }

    def text() -> str:
        tables = []
        if spaces:
            rows = [_row(one, "resourceLimits") for one in spaces]
            headings = ["PLAN OF A SPACE", "TYPE", "ROUTER", "BROKER", "AGGREGATE", "DESCRIPTION"]
            tables.append(columns(headings, rows))
        rows = [_row(one, "resources", RESOURCES[:2]) for one in wanted.values()]
        headings = ["PLAN OF AN ADDRESS", "TYPE", "ROUTER", "BROKER", "DESCRIPTION"]
        return "\n\n".join([*tables, columns(headings, rows)])

    show({"items": [*spaces, *wanted.values()]}, call.output, text)


@app.command()
def usage(
    space: Annotated[
        str | None,
        typer.Argument(
            help="Only this address space.", autocompletion=completion.of("addressspace")
        ),
    ] = None,
    namespace: AnyNamespace = None,
    *,
    call: Reporting,
) -> None:
    """Show how much of its quota each address space uses: addresses, routers, brokers, aggregate;
    and of its allowance: messages and bytes of the day or month (UTC).

    Example: enmasse plan usage shop
    """
    from datetime import UTC, datetime

    from enmasse.base.errors import Code, Missing
    from enmasse.cli.output.printing import columns, show
    from enmasse.cli.resources import quota_usage as using
    from enmasse.plan import ADDRESSES

    with call.api() as api:
        listed = [
            *api.list("addressspaces", namespace)["items"],
            *api.list("addresses", namespace)["items"],
            *api.list("addressspaceschemas", None)["items"],
        ]
    # Computed at the time of the call from the resources that the user may read.
    found = using.of_spaces(using.read(listed), datetime.now(UTC))
    if space is not None:
        found = [one for one in found if one.space == space]
        if not found:
            raise Missing(Code.RESOURCE_MISSING, f"address space {space!r} not found")
    items = [one._asdict() | {"uses": [use._asdict() for use in one.uses]} for one in found]

    def text() -> str:
        rows = []
        for one in found:
            by_name = {use.resource: use for use in one.uses}
            cells = [_use(by_name.get(name)) for name in RESOURCES]
            addresses = _use(by_name.get(ADDRESSES)) or one.addresses
            sent = [
                _use(by_name.get(name)) or count
                for name, count in (("messages", one.messages), ("bytes", one.bytes))
            ]
            rows.append([one.space, one.namespace, one.plan, addresses, *cells, one.period, *sent])
        return columns(HEADINGS, rows)

    show({"items": items}, call.output, text)


@app.command()
def impact(file: Files, *, call: Reporting) -> None:
    """Show which address spaces and addresses a changed plan, infra config or authentication
    service would affect, and how. Nothing is changed.

    Example: enmasse plan impact -f small-queue.yaml
    """
    from enmasse.cli.output.printing import columns, show
    from enmasse.cli.resources.files import load_files

    resources = load_files(file, recursive=False, namespace="")
    with call.api() as api:
        reviews = [api.review_change(one.document()) for one in resources]

    def text() -> str:
        tables = []
        for review in reviews:
            counts = [
                f"{review[part]['total']} {title}"
                for part, title in (("addressSpaces", "address spaces"), ("addresses", "addresses"))
            ]
            name = f"{review['resource']['kind']} {review['resource']['name']}"
            tables.append(f"{name} would change {' and '.join(counts)}")
            rows = [
                [one["namespace"], one["resource"], *(_plain(change[of]) for of in FIELDS)]
                for part in ("addressSpaces", "addresses")
                for one in review[part]["items"]
                for change in one["changes"]
            ]
            if rows:
                tables.append(columns(["NAMESPACE", "RESOURCE", "FIELD", "BEFORE", "AFTER"], rows))
        return "\n\n".join(tables)

    show({"items": reviews}, call.output, text)


def _plain(value: object) -> str:
    return "none" if value is None else str(value)


def _use(use: Any) -> str | None:
    if use is None:
        return None
    return f"{use.used} of {use.limit}{' (over)' if use.is_over else ''}"


def _row(plan: Mapping[str, Any], credit: str, names: tuple[str, ...] = RESOURCES) -> list[object]:
    amounts = plan.get(credit) or {}
    return [
        plan["name"],
        plan["type"],
        *(_number(amounts.get(name)) for name in names),
        plan.get("description"),
    ]


def _number(amount: float | None) -> str | None:
    return None if amount is None else f"{amount:,g}"
