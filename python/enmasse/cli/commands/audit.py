"""`enmasse audit`: requests to the API, and logins of messaging clients."""

from typing import Annotated, Any

import typer

from enmasse.cli.options.invocation import Reporting


def audit(
    tail: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Number of latest records.")
    ] = 50,
    refused: Annotated[
        bool, typer.Option("--refused", help="Only refused and failed requests.")
    ] = False,
    logins: Annotated[
        bool, typer.Option("--logins", help=("Logins of messaging clients, accepted and refused."))
    ] = False,
    *,
    call: Reporting,
) -> None:
    """Show the audit trail: every request that changes something or reads confidential data, and
    every refusal.

    Examples:

      enmasse audit --refused

      enmasse audit --logins --tail 200
    """
    from enmasse.cli.output.printing import columns, show

    of = "logins" if logins else "requests"
    with call.api() as api:
        found = [one for one in api.audit(tail, of) if not refused or one["decision"] != "allowed"]
    headings = ["TIME", "WHO", "FROM", "VERB", "WHAT", "DECISION", "WHY"]
    rows = [
        [one["time"], one["who"], one.get("from"), one["verb"], _what(one), one["decision"],
         _why(one)]
        for one in found
    ]  # fmt: skip
    show({"items": found}, call.output, lambda: columns(headings, rows))


def _what(one: dict[str, Any]) -> str:
    if one["verb"] == "connect" and "path" not in one:
        by = one.get("mechanism", "no SASL")
        return f"{one.get('space', 'no space')} by {by}"
    if one["verb"] == "attach":
        return f"{one.get('address', 'no address')} in {one.get('space', 'no space')}"
    if "resource" not in one:
        return str(one["path"])
    parts = [one["resource"], one.get("name"), one.get("subresource")]
    where = f" in {one['namespace']}" if "namespace" in one else ""
    return "/".join(part for part in parts if part) + where


def _why(one: dict[str, Any]) -> str | None:
    if one["decision"] == "allowed":
        return "dry run" if one.get("dryRun") else None
    if "why" in one:
        return str(one["why"])
    fields = ", ".join(one.get("fields", []))
    return " ".join(filter(None, [one.get("code"), one.get("reason"), fields]))
