"""Contexts: which platform the commands are about, by a name of one's own.

They are in `config.yaml` of `$XDG_CONFIG_HOME/enmasse`, by default `~/.config/enmasse`:

    current: shop
    contexts:
      shop: {server: https://mq.example.com:6443, tokenFile: .., ca: .., space: shop}

The folder and its files are the owner's alone, and a token or password that others can read is
refused. What a command is told by its options or variables holds before what a context says.
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
"""Names the context for one command or one shell."""


@dataclass(frozen=True, slots=True)
class Context:
    """One platform: its API, its messaging server, and what is meant where nothing is said."""

    server: str | None = None
    """URL of the HTTP API."""

    ca: str | None = None
    """File of the authority that the API's and the messaging server's certificates are from."""

    token_file: str | None = None
    """File of the API's token."""

    data: str | None = None
    """Data folder of a platform on this machine, instead of server and token."""

    url: str | None = None
    """URL of the messaging server."""

    password_file: str | None = None
    """File of the password of the user that `url` names."""

    namespace: str | None = None
    """Namespace where a command names none."""

    space: str | None = None
    """Address space where a command names none."""

    @classmethod
    def of(cls, document: object, where: str) -> Self:
        """Return what the file says of a context; `where` names it.

        Raises: ValueError for what is no text, or a field that there is not.
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
        """Return it as the file has it."""
        return {_spelled(name): value for name, value in asdict(self).items() if value is not None}

    def changed(self, **given: str) -> Self:
        """Return it with some fields changed."""
        return replace(self, **given)


@dataclass(frozen=True, slots=True)
class Contexts:
    """Everything in the file."""

    current: str | None = None
    contexts: Mapping[str, Context] = field(default_factory=dict)

    @classmethod
    def of(cls, document: object) -> Self:
        """Return what the file says.

        Raises: ValueError for what cannot be meant.
        """
        if not isinstance(document, Mapping) or not document.keys() <= {"current", "contexts"}:
            raise ValueError("has `current` and `contexts`, and nothing else")
        current, contexts = document.get("current"), document.get("contexts") or {}
        if current is not None and not isinstance(current, str):
            raise ValueError("current: must be a text")
        if not isinstance(contexts, Mapping):
            raise ValueError("contexts: must be a mapping")
        found = {str(name): Context.of(one, f"contexts.{name}") for name, one in contexts.items()}
        return cls(current, found)

    def document(self) -> dict[str, Any]:
        """Return it as the file has it."""
        found: dict[str, Any] = {"current": self.current} if self.current else {}
        return found | {"contexts": {name: one.document() for name, one in self.contexts.items()}}

    def named(self, name: str) -> Context:
        """Return the context of a name.

        Raises: Missing if there is none; the message says what there is.
        """
        if name not in self.contexts:
            close = difflib.get_close_matches(name, self.contexts, n=1)
            there = f"there are {', '.join(self.contexts)}" if self.contexts else "there is none"
            hint = f"did you mean {close[0]!r}?" if close else there
            raise Missing(Code.NOT_FOUND, f"there is no context {name!r}; {hint}")
        return self.contexts[name]


def _spelled(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def folder() -> Path:
    """Return where contexts are, with the tokens and passwords that `context set` has taken."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "enmasse"


def load() -> Contexts:
    """Return what the file says; nothing if there is none.

    Raises: Invalid if it cannot be read.
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
    """Write the file; only the owner may read it."""
    import yaml

    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    text = yaml.safe_dump(contexts.document(), sort_keys=False)
    write_private(folder() / "config.yaml", text)


def keep_secret(name: str, what: str, secret: str) -> str:
    """Write a token or a password of a context beside the file and return where it is."""
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder() / f"{name}.{what}"
    write_private(file, f"{secret}\n")
    return str(file)


_chosen: str | None = None


def choose(name: str | None) -> None:
    """Say which context is meant from now on; None: the one of the variable, else the current."""
    global _chosen
    _chosen = name


def chosen() -> Context | None:
    """Return the context that is meant, if there is one.

    Raises: Missing if there is none of that name; Invalid if the file cannot be read.
    """
    known = load()
    name = _chosen or os.environ.get(VARIABLE) or known.current
    return known.named(name) if name else None


def secret(file: Path) -> str:
    """Return what is in the file of a token or password, without white space around it.

    Raises: Denied if others can read it; Missing if it cannot be read.
    """
    try:
        mode = file.stat().st_mode
        text = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Missing(Code.SERVER_MISSING, f"cannot read {file}: {reason}") from None
    if mode & 0o077:
        raise Denied(
            Code.ACCESS_DENIED, f"{file} can be read by others; `chmod 600 {file}` mends it"
        )
    return text


def messaging_url(context: Context) -> str | None:
    """Return the URL of the messaging server of a context, with the password of its user.

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
