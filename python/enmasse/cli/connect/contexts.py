"""Contexts: named platforms, of which commands use one.

They are stored in `config.yaml` of `$XDG_CONFIG_HOME/enmasse`, by default `~/.config/enmasse`:

    current: shop
    contexts:
      shop: {server: https://mq.example.com:6443, tokenFile: .., ca: .., space: shop}

Only the owner can access the folder and its files. A token or password file that others can read is
refused. Options and environment variables of a command take precedence over its context.
"""

import difflib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from enmasse.base.data_dir import write_private
from enmasse.base.errors import Code, Denied, Invalid, Missing

VARIABLE = "ENMASSE_CONTEXT"
"""Selects the context for one command or one shell."""


@dataclass(frozen=True, slots=True)
class Context:
    """One platform: its API, its messaging server, and defaults."""

    server: str | None = None
    """URL of the HTTP API."""

    ca: str | None = None
    """File with the CA of the API and the messaging server."""

    token_file: str | None = None
    """File with the API token."""

    data: str | None = None
    """Data folder of a local platform, instead of server and token."""

    url: str | None = None
    """URL of the messaging server."""

    password_file: str | None = None
    """File with the password of the user in `url`."""

    namespace: str | None = None
    """Default namespace."""

    space: str | None = None
    """Default address space."""

    @classmethod
    def of(cls, document: object, where: str) -> Self:
        """Parse a context; `where` names it.

        Raises: ValueError for a value that is not text, or an unknown field.
        """
        names = {_spelled(one.name): one.name for one in fields(cls)}
        if not isinstance(document, Mapping):
            raise ValueError(f"{where}: must be a mapping")
        for name, value in document.items():
            if name not in names:
                raise ValueError(f"{where}.{name}: is unknown; known: {', '.join(names)}")
            if not isinstance(value, str):
                raise ValueError(f"{where}.{name}: must be a text")
        return cls(**{names[name]: value for name, value in document.items()})

    def document(self) -> dict[str, str]:
        """Return it in the form of the file."""
        return {_spelled(name): value for name, value in asdict(self).items() if value is not None}

    def changed(self, **given: str) -> Self:
        """Return it with changed fields."""
        return replace(self, **given)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The content of the file."""

    current: str | None = None
    contexts: Mapping[str, Context] = field(default_factory=dict)

    @classmethod
    def of(cls, document: object) -> Self:
        """Parse the file.

        Raises: ValueError for an invalid value.
        """
        if not isinstance(document, Mapping) or not document.keys() <= {"current", "contexts"}:
            raise ValueError("may contain `current` and `contexts` only")
        current, contexts = document.get("current"), document.get("contexts") or {}
        if current is not None and not isinstance(current, str):
            raise ValueError("current: must be a text")
        if not isinstance(contexts, Mapping):
            raise ValueError("contexts: must be a mapping")
        found = {str(name): Context.of(one, f"contexts.{name}") for name, one in contexts.items()}
        return cls(current, found)

    def document(self) -> dict[str, Any]:
        """Return it in the form of the file."""
        found: dict[str, Any] = {"current": self.current} if self.current else {}
        return found | {"contexts": {name: one.document() for name, one in self.contexts.items()}}

    def named(self, name: str) -> Context:
        """Return the context with a name.

        Raises: Missing, listing the existing ones.
        """
        if name not in self.contexts:
            close = difflib.get_close_matches(name, self.contexts, n=1)
            there = (
                f"contexts: {', '.join(self.contexts)}"
                if self.contexts
                else "there are no contexts"
            )
            hint = f"did you mean {close[0]!r}?" if close else there
            raise Missing(Code.NOT_FOUND, f"context {name!r} not found; {hint}")
        return self.contexts[name]


def _spelled(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def folder() -> Path:
    """Return the folder of contexts, with the tokens and passwords stored by `context set`."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "enmasse"


def load() -> Contexts:
    """Return the content of the file; empty without one.

    Raises: Invalid if it is malformed.
    """
    file = folder() / "config.yaml"
    if not file.exists():
        return Contexts()
    import yaml

    try:
        return Contexts.of(yaml.safe_load(file.read_text()) or {})
    except (OSError, ValueError, yaml.YAMLError) as error:
        problem = " ".join(str(error).split())
        raise Invalid(Code.SETTING_INVALID, f"cannot read {file}: {problem}") from None


def save(contexts: Contexts) -> None:
    """Write the file, readable by its owner only."""
    import yaml

    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    text = yaml.safe_dump(contexts.document(), sort_keys=False)
    write_private(folder() / "config.yaml", text)


def keep_secret(name: str, what: str, secret: str) -> str:
    """Write a token or password of a context into its own file and return the path."""
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder() / f"{name}.{what}"
    write_private(file, f"{secret}\n")
    return str(file)


_chosen: str | None = None


def choose(name: str | None) -> None:
    """Select a context; None: by the environment variable, else the current one."""
    global _chosen  # noqa: PLW0603
    _chosen = name


def chosen() -> Context | None:
    """Return the selected context, or None.

    Raises: Missing if its name is unknown; Invalid if the file is malformed.
    """
    known = load()
    name = _chosen or os.environ.get(VARIABLE) or known.current
    return known.named(name) if name else None


def secret(file: Path) -> str:
    """Return the content of a token or password file without surrounding white space.

    Raises: Denied if other users can read it; Missing if it is unreadable.
    """
    try:
        mode = file.stat().st_mode
        text = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Missing(Code.SERVER_MISSING, f"cannot read {file}: {reason}") from None
    if mode & 0o077:
        raise Denied(
            Code.ACCESS_DENIED, f"{file} is readable by other users; run `chmod 600 {file}`"
        )
    return text


def messaging_url(context: Context) -> str | None:
    """Return the URL of a context's messaging server, with the user's password.

    Raises: as `secret`.
    """
    if context.url is None or context.password_file is None:
        return context.url
    parts = urlsplit(context.url)
    user, _, server = parts.netloc.rpartition("@")
    if not user or ":" in user:
        return context.url
    password = quote(secret(Path(context.password_file)), safe="")
    return parts._replace(netloc=f"{user}:{password}@{server}").geturl()
