"""`enmasse token`: API tokens and their roles."""

from typing import Annotated, Any

import typer

from enmasse.cli.options import completion
from enmasse.cli.options.invocation import Group, Invocation, Reporting

app = Group(no_args_is_help=True, help="API tokens: create, list, delete.")

Grants = Annotated[
    list[str] | None,
    typer.Option(
        "--grant",
        metavar="ROLE=NS[,NS...]",
        help=(
            "service-admin, tenant-edit, tenant-view or metrics in these"
            " namespaces; `*` means all, and metrics requires `*`. Repeatable."
            " A token without roles can read the available kinds and plans."
        ),
    ),
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help=("Name of the token, also used in the audit trail."))],
    grant: Grants = None,
    days: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=36_500, help="Days until the token expires."),
    ] = None,
    *,
    call: Invocation,
) -> None:
    """Create a token and print it. It is shown only once: the platform stores only its digest.

    Examples:

      enmasse token create ci --grant tenant-edit=shop --days 90 > ci.token

      enmasse token create auditor --grant 'tenant-view=*'

      enmasse token create prometheus --grant 'metrics=*' > metrics.token
    """
    import hashlib
    from datetime import timedelta

    from enmasse.base.clock import rfc3339
    from enmasse.base.ids import new_token
    from enmasse.resources.api_token import DIGEST, EXPIRES, TOKEN_TYPE, TOKENS_NAMESPACE

    token = f"{name}.{new_token()}"
    texts = {DIGEST: hashlib.sha256(token.encode()).hexdigest()} | _grants(grant or [])
    with call.api() as api:
        if days is not None:
            texts[EXPIRES] = rfc3339(api.clock.now() + timedelta(days=days))
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": TOKENS_NAMESPACE},
            "type": TOKEN_TYPE,
            "stringData": texts,
        }
        api.create("secrets", secret)
    print(token)


@app.command("list")
def list_(
    *,
    call: Reporting,
) -> None:
    """Show tokens with their roles. The token itself cannot be shown.

    Example: enmasse token list
    """
    from enmasse.auth.callers import caller_of
    from enmasse.base.clock import rfc3339
    from enmasse.cli.output.printing import columns, show
    from enmasse.resources import Secret
    from enmasse.resources.api_token import TOKEN_TYPE, TOKENS_NAMESPACE

    with call.api() as api:
        found = api.list("secrets", TOKENS_NAMESPACE)["items"]
    items: list[dict[str, Any]] = []
    for secret in (Secret.model_validate(one) for one in found if one.get("type") == TOKEN_TYPE):
        if faults := secret.faults():
            # It was written to a cluster directly, bypassing admission, and is invalid.
            problem = "; ".join(map(str, faults))
            items.append({"name": secret.metadata.name, "roles": {}, "problem": problem})
            continue
        one = caller_of(secret)
        items.append(
            {
                "name": one.name,
                "roles": {role: sorted(where) for role, where in one.roles.items()},
                "expires": rfc3339(one.expires) if one.expires else None,
            }
        )

    def text() -> str:
        rows = [
            [one["name"], one.get("problem") or _shown(one["roles"]), one.get("expires") or "never"]
            for one in items
        ]
        return columns(["NAME", "ROLES", "EXPIRES"], rows)

    show({"items": items}, call.output, text)


@app.command()
def delete(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="Names, one or more.", autocompletion=completion.tokens
        ),
    ],
    *,
    call: Invocation,
) -> None:
    """Revoke tokens. They become invalid at once, and their open watches end.

    Example: enmasse token delete ci
    """
    from enmasse.resources.api_token import TOKENS_NAMESPACE

    with call.api() as api:
        for name in names:
            api.delete("secrets", TOKENS_NAMESPACE, name)
            print(f"token {name} deleted")


def _grants(given: list[str]) -> dict[str, str]:
    """Return the namespaces of each granted role."""
    from enmasse.resources.api_token import ROLES, namespaces

    found: dict[str, set[str]] = {}
    for one in given:
        role, _, listed = one.partition("=")
        if role not in ROLES:
            known = ", ".join(ROLES)
            raise typer.BadParameter(
                f"{role!r} is not a role; roles: {known}", param_hint="--grant"
            )
        try:
            where = namespaces(listed)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--grant") from None
        if not where:
            raise typer.BadParameter(f"write {role}=NAMESPACE", param_hint="--grant")
        found.setdefault(role, set()).update(where)
    return {role: ",".join(sorted(where)) for role, where in found.items()}


def _shown(roles: dict[str, list[str]]) -> str:
    return "; ".join(f"{role} {','.join(where)}" for role, where in roles.items()) or "schema"
