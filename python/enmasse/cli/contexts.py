"""Contexts: which platform the commands are about, by a name of one's own.

They are in `config.yaml` of `$XDG_CONFIG_HOME/enmasse`, by default `~/.config/enmasse`:

    current: shop
    contexts:
      shop: {server: https://mq.example.com:6443, tokenFile: .., ca: .., space: shop}

The folder and its files are the owner's alone, and a token or password that others can read is
refused. What a command is told by its options or variables holds before what a context says.
"""

import os
from pathlib import Path
from urllib.parse import quote, urlsplit

import yaml
from pydantic import Field, ValidationError

from enmasse.base.data_dir import write_private
from enmasse.base.errors import Code, Denied, Invalid, Missing
from enmasse.resources import faults
from enmasse.resources.model import Model

VARIABLE = "ENMASSE_CONTEXT"
"""Names the context for one command or one shell."""


class Context(Model):
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


class Contexts(Model):
    """Everything in the file."""

    current: str | None = None
    contexts: dict[str, Context] = Field(default_factory=dict)

    def named(self, name: str) -> Context:
        """Return the context of a name.

        Raises: Missing if there is none; the message says what there is.
        """
        if name not in self.contexts:
            hint = faults.nearest(name, sorted(self.contexts)) if self.contexts else "there is none"
            raise Missing(Code.NOT_FOUND, f"there is no context {name!r}; {hint}")
        return self.contexts[name]


def folder() -> Path:
    """Return where contexts are, with the tokens and passwords that `context set` has taken."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "enmasse"


def load() -> Contexts:
    """Return what the file says; nothing if there is none.

    Raises: Invalid if it cannot be read.
    """
    file = folder() / "config.yaml"
    try:
        return Contexts.model_validate(yaml.safe_load(file.read_text()) or {}, by_name=False)
    except FileNotFoundError:
        return Contexts()
    except ValidationError as error:
        found = "; ".join(str(fault) for fault in faults.of(error, Contexts))
        raise Invalid(Code.SETTING_INVALID, f"{file}: {found}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problem = " ".join(str(error).split())
        raise Invalid(Code.SETTING_INVALID, f"cannot read {file}: {problem}") from None


def save(contexts: Contexts) -> None:
    """Write the file; only the owner may read it."""
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
