"""Location and credentials of a Kubernetes API server: a kubeconfig or the service account of the
pod.

TLS is always verified. Only this module handles tokens and keys; error messages contain none.
"""

import asyncio
import base64
import binascii
import json
import os
import ssl
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx2
import yaml

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Invalid, Unavailable
from enmasse.resources.model import INFRA_NAMESPACE

POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Token, namespace and CA of a pod."""

EXEC_TIMEOUT_S = 30
"""Maximum run time of a credential plugin."""

TOKEN_FILE_S = 60.0
"""How long a token from a file or plugin is cached."""

_OPTIONS = ("kubeconfig", "namespace")
_UNSUPPORTED = {
    "auth-provider": "use exec",
    "username": "use a token or a client certificate",
}
_Document = dict[str, Any]


class Cluster:
    """An API server with its CA and our credentials."""

    def __init__(self, url: str, clock: Clock, environment: Mapping[str, str] = os.environ) -> None:
        """Parse `kubernetes://[CONTEXT][?kubeconfig=FILE][&namespace=NAME]`.

        Without context and file: the service account of the pod, else the files of KUBECONFIG, else
        `~/.kube/config`. `namespace` holds the leases.

        Raises: Invalid if a part is malformed or not supported.
        """
        parts = urlsplit(url)
        asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if unknown := [name for name in asked if name not in _OPTIONS]:
            raise _unusable(f"unknown option {unknown[0]!r}; known: {', '.join(_OPTIONS)}")
        context = unquote(parts.netloc + parts.path)
        in_pod = (
            not context and "kubeconfig" not in asked and "KUBERNETES_SERVICE_HOST" in (environment)
        )
        cluster, user, base = _pod(environment) if in_pod else _configured(
            context, asked.get("kubeconfig"), environment
        )  # fmt: skip
        self.server = str(cluster.get("server", "")).rstrip("/")
        self.name = f"Kubernetes at {self.server}"
        self.namespace = asked.get("namespace", INFRA_NAMESPACE)
        self.proxy = cluster.get("proxy-url")
        self.tls_name = cluster.get("tls-server-name")
        _check(self.name, self.server, cluster, user)
        self._ca = _content(cluster, "certificate-authority", base)
        self._certificate = _content(user, "client-certificate", base)
        self._key = _content(user, "client-key", base)
        self.credentials = Credentials(user, base, clock, self.name)

    def tls(self) -> ssl.SSLContext:
        """Return a TLS context that verifies the server, with our certificate if there is one.

        Raises: Invalid if a certificate or key is unusable.
        """
        try:
            context = ssl.create_default_context(cadata=self._ca.decode() if self._ca else None)
            if self._certificate and self._key:
                _load(context, self._certificate, self._key)
        except (ssl.SSLError, ValueError) as error:
            raise _unusable(f"a certificate or key for {self.name}: {error}") from None
        return context


class Credentials(httpx2.Auth):
    """Adds a bearer token to every request and re-reads it when it may have changed."""

    def __init__(self, user: _Document, base: Path, clock: Clock, name: str) -> None:
        self._user, self._base, self._clock, self._name = user, base, clock, name
        self._token: str | None = user.get("token")
        self._fresh_until = float("inf") if self._token else float("-inf")

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; retry once with a fresh token if it is refused."""
        token = await self._current()
        if token:
            request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401 and not self._user.get("token"):
            self._fresh_until = float("-inf")
            if (newer := await self._current()) and newer != token:
                request.headers["authorization"] = f"Bearer {newer}"
                yield request

    async def _current(self) -> str | None:
        if self._clock.monotonic() < self._fresh_until:
            return self._token
        lasts_s = TOKEN_FILE_S
        if "tokenFile" in self._user:
            path = self._base / self._user["tokenFile"]
            try:
                self._token = path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise _unavailable(self._name, f"the token file {path}: {error}") from None
        elif "exec" in self._user:
            self._token, lasts_s = await self._executed(self._user["exec"])
        self._fresh_until = self._clock.monotonic() + lasts_s
        return self._token

    async def _executed(self, how: _Document) -> tuple[str, float]:
        """Run the credential plugin of a kubeconfig (client.authentication.k8s.io)."""
        asked = {"apiVersion": how.get("apiVersion"), "kind": "ExecCredential"}
        plugin_environment = {one["name"]: one["value"] for one in how.get("env") or ()}
        spoken = {"KUBERNETES_EXEC_INFO": json.dumps(asked | {"spec": {"interactive": False}})}
        command = str(how.get("command"))
        try:
            async with asyncio.timeout(EXEC_TIMEOUT_S):
                process = await asyncio.create_subprocess_exec(
                    command,
                    *(how.get("args") or ()),
                    env=dict(os.environ) | plugin_environment | spoken,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                )
                try:
                    out, _ = await process.communicate()
                finally:
                    if process.returncode is None:
                        process.kill()
            status = json.loads(out)["status"]
            token = str(status["token"])
        except (OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
            why = str(error) or type(error).__name__
            raise _unavailable(self._name, f"{command} returned no token: {why}") from None
        # Without an expiry the token is requested again at the interval of token files.
        lasts_s = TOKEN_FILE_S
        with suppress(KeyError, ValueError):
            ends = datetime.fromisoformat(status["expirationTimestamp"])
            lasts_s = (ends - self._clock.now()).total_seconds() - 10
        return token, lasts_s


def _pod(environment: Mapping[str, str]) -> tuple[_Document, _Document, Path]:
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    cluster = {"server": f"https://{host}:{port}", "certificate-authority": str(POD / "ca.crt")}
    return cluster, {"tokenFile": str(POD / "token")}, POD


def _configured(
    context: str, file: str | None, environment: Mapping[str, str]
) -> tuple[_Document, _Document, Path]:
    """Return cluster and user of a context, and the base folder of their paths."""
    home = Path(environment.get("HOME") or "~").expanduser()
    paths = [file] if file else (environment.get("KUBECONFIG") or "").split(os.pathsep)
    found = [Path(one).expanduser() for one in paths if one] or [home / ".kube" / "config"]
    documents = [(path, _read(path)) for path in found if path.exists()]
    if not documents:
        raise _unusable(f"kubeconfig not found: {', '.join(map(str, found))}")
    named = (document.get("current-context") for _, document in documents)
    context = context or next((one for one in named if one), "")
    if not context:
        raise _unusable("the kubeconfig has no current context; write kubernetes://CONTEXT")
    entry, _ = _named(documents, "contexts", "context", context)
    cluster, path = _named(documents, "clusters", "cluster", str(entry.get("cluster")))
    user, _ = _named(documents, "users", "user", str(entry.get("user")))
    return cluster, user, path.parent


def _read(path: Path) -> _Document:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        # The parser's own message could contain a part of the file, such as a token.
        raise _unusable(f"{path} cannot be read ({type(error).__name__})") from None
    return document if isinstance(document, dict) else {}


def _named(
    documents: list[tuple[Path, _Document]], several: str, one: str, name: str
) -> tuple[_Document, Path]:
    """Return the first entry with a name, as kubectl does with several files."""
    for path, document in documents:
        for entry in document.get(several) or ():
            if isinstance(entry, dict) and entry.get("name") == name:
                return dict(entry.get(one) or {}), path
    raise _unusable(f"the kubeconfig has no {one} {name!r}")


def _check(name: str, server: str, cluster: _Document, user: _Document) -> None:
    if urlsplit(server).scheme != "https":
        raise _unusable(f"{name}: the server must be https://, because it receives a token")
    if cluster.get("insecure-skip-tls-verify"):
        raise _unusable(f"{name}: insecure-skip-tls-verify is not supported; set the CA")
    for field, remedy in _UNSUPPORTED.items():
        if field in user:
            raise _unusable(f"{name}: {field} is not supported; {remedy}")


def _content(entry: _Document, field: str, base: Path) -> bytes | None:
    """Return the value of `FIELD-data`, or the content of the file in `FIELD`."""
    try:
        if data := entry.get(f"{field}-data"):
            return base64.b64decode(data, validate=True)
        if path := entry.get(field):
            return (base / str(path)).expanduser().read_bytes()
    except (OSError, binascii.Error) as error:
        raise _unusable(f"{field} of the kubeconfig: {error}") from None
    return None


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and key into a TLS context; OpenSSL reads files only."""
    with tempfile.NamedTemporaryFile() as file:  # only the owner may read it
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _unusable(why: str) -> Invalid:
    return Invalid(Code.SETTING_INVALID, f"setting store: {why}")


def _unavailable(name: str, why: str) -> Unavailable:
    return Unavailable(Code.STORE_UNUSABLE, f"{name}: {why}", retry_after_s=1.0)
