"""Servers of the messaging commands."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from enmasse.base.errors import Code, Denied, EnMasseError, Missing, Unavailable
from enmasse.base.hosts import is_loopback
from enmasse.cli.connect import contexts, network, trust
from enmasse.cli.connect.default_space import default_home
from enmasse.client import Connection, connect

CONNECT_MIN_S = 5.0
"""Minimum time-out for connecting, however short the time-out of messages."""


@dataclass(frozen=True, slots=True)
class Server:
    """An AMQP 1.0 server: by URL, or the platform of a data folder."""

    url: str | None
    data: Path | None
    ca: Path | None
    mechanism: str | None
    space: str | None = None

    @asynccontextmanager
    async def session(self, timeout_s: float | None = None) -> AsyncIterator[Connection]:
        """Connect for the duration of the block.

        With `timeout_s` connecting takes at most that time, or 5 s if it is shorter.

        Raises: Unavailable without a URL and a local platform, or if the server does not respond;
            Denied, with the remedy, if the login is refused.
        """
        context = self._context()
        url = self.found_url()
        authority = self.ca or (context.ca if context else None)
        limit_s = None if timeout_s is None else max(timeout_s, CONNECT_MIN_S)
        async with AsyncExitStack() as stack:
            stack.enter_context(self._naming_options(url))
            found = await asyncio.to_thread(self._trust, url) if authority is None else None
            connection = connect(
                url,
                ca=str(stack.enter_context(found.file()) if found else authority)
                if found or authority
                else None,
                mechanisms=[self.mechanism] if self.mechanism else None,
                hostname=self.space,
                server_name=found.server_name if found else None,
            )
            try:
                async with asyncio.timeout(limit_s):
                    session = await stack.enter_async_context(connection)
            except TimeoutError:
                raise Unavailable(
                    Code.NOT_AVAILABLE,
                    f"the server did not answer within {limit_s:g} s; is that an AMQP port?",
                ) from None
            yield session

    @contextmanager
    def _naming_options(self, url: str) -> Iterator[None]:
        """Add the remedy to a refused anonymous login."""
        try:
            yield
        except Denied as error:
            if error.message.startswith("the connection: ") and not urlsplit(url).username:
                login = "--url amqp://USER:PASSWORD@HOST:PORT logs in"
                space = "" if self.space else "--space NAME.NAMESPACE names the space, "
                error.message += f"; {space}{login}"
            raise
        except Missing as error:
            if hit := re.search(r'no address "([^"]+)" in this address space', error.message):
                error.message = self._as_subscription(hit[1]) or error.message
            raise

    def _as_subscription(self, name: str) -> str | None:
        """Return the name of a subscription for clients, if the platform reports that it is one."""
        from enmasse.cli.connect.client import Api

        space = (self.space or "").partition(".")[0]
        try:
            with Api.find(self.data, None, None) as api:
                declared = api.list("addresses", None)["items"]
        except EnMasseError:
            return None
        topics = sorted(
            one["spec"]["topic"]
            for one in declared
            if (one["spec"]["type"], one["spec"]["address"]) == ("subscription", name)
            and one["metadata"]["name"].startswith(f"{space}." if space else "")
        )
        called = " or ".join(f"{topic}::{name}" for topic in topics)
        return f"{name!r} is a subscription: receive from {called}" if called else None

    def found_url(self) -> str:
        """Return the given URL, that of the context, or that of the local platform.

        Raises: Missing if there is none; Denied if other users can read a context's password.
        """
        if self.url is not None:
            return self.url
        context = self._context()
        if context is not None and (url := contexts.messaging_url(context)) is not None:
            return url
        if context is not None and context.server is not None:
            raise Missing(
                Code.SERVER_MISSING,
                "the context has no messaging server; set one with `enmasse"
                " context set NAME --url URL`, or pass --url",
            )
        return self.platform_url()

    def platform_url(self) -> str:
        """Return the URL of the local platform, without a login.

        Raises: Missing if there is none, or it serves no AMQP.
        """
        return network.listener_url(self._folder(), ("amqp", "amqps"))

    def pids(self) -> list[int]:
        """Return the server process, if it is the local platform."""
        context = self._context()
        if self.url is not None or (context is not None and context.url is not None):
            return []
        return [network.running(self._folder())["pid"]]

    def _trust(self, url: str) -> trust.Trust | None:
        """Return the trust settings of the space's server as reported by the platform; None for
        another server, or if the platform does not report them.
        """
        from enmasse.cli.connect.client import Api
        from enmasse.resources import AddressSpace

        if urlsplit(url).scheme not in ("amqps", "wss") or not self._is_platforms(url):
            return None
        context = self._context()
        space_option = self.space or (context and context.space) or ""
        first_namespace, first = ("", "") if space_option else default_home(self.data, None, None)
        name, _, namespace = (space_option or first).partition(".")
        namespace = namespace or (context and context.namespace) or first_namespace or "default"
        try:
            with Api.find(self.data, None, None) as api:
                return trust.of_space(api.get(AddressSpace, namespace, name))
        except EnMasseError:
            return None

    def _is_platforms(self, url: str) -> bool:
        """Whether a URL is that of the context or of the local platform."""
        if self.url is None:
            return True
        parts = urlsplit(url)
        try:
            endpoints = network.running(self._folder())["endpoints"]
        except EnMasseError:
            return False
        ports = {one["port"] for one in endpoints.values()}
        return is_loopback(parts.hostname or "") and parts.port in ports

    def _context(self) -> contexts.Context | None:
        return contexts.chosen() if self.url is None and self.data is None else None

    def _folder(self) -> Path | None:
        context = self._context()
        return Path(context.data) if context and context.data else self.data
