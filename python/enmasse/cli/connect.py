"""Where the messaging commands connect to."""

from dataclasses import dataclass
from pathlib import Path

from enmasse.base.errors import Code, Missing
from enmasse.cli import network
from enmasse.client import Connection, connect


@dataclass(frozen=True, slots=True)
class Server:
    """An AMQP 1.0 server: any one by its URL, or the platform of a data folder."""

    url: str | None
    data: Path | None
    ca: Path | None
    mechanism: str | None

    def session(self) -> Connection:
        """Return a session to enter.

        Raises: Missing if there is no URL and no platform on this machine.
        """
        return connect(
            self.found_url(),
            ca=str(self.ca) if self.ca else None,
            mechanisms=[self.mechanism] if self.mechanism else None,
        )

    def found_url(self) -> str:
        """Return the URL given, or that of the platform on this machine."""
        if self.url is not None:
            return self.url
        amqp = network.running(self.data)["endpoints"].get("amqp")
        if amqp is None:
            raise Missing(
                Code.SERVER_MISSING,
                "the platform was started with --amqp-port off; name a server with --url",
            )
        return network.url("amqp", amqp["host"], amqp["port"])

    def pids(self) -> list[int]:
        """Return the server's process, if it is the platform on this machine."""
        return [network.running(self.data)["pid"]] if self.url is None else []
