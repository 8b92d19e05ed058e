"""Streams a backup of the running platform."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from enmasse.api.platform import Platform
from enmasse.base.clock import rfc3339
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Code, Exhausted, Unavailable
from enmasse.resources import MessagingNode, Resource, Secret
from enmasse.store import archive


class BackupPages:
    """GET on `backup`: `?secrets=true` includes secrets."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._running = False

    async def backup(self, request: Request) -> Response:
        """Stream a backup as it is written; one at a time."""
        data = self._platform.data()
        if data is None:
            raise Unavailable(
                Code.STANDING_BY,
                "another process of the same database holds the messages; send"
                " the request to that process",
            )
        if self._running:
            raise Exhausted(
                Code.LIMIT_REACHED, "another backup is in progress; wait until it completes"
            )
        secrets = request.query_params.get("secrets") in ("true", "1")
        # Before listing: every later write is then in or after the backup.
        made = rfc3339(self._platform.clock.now())
        await self._platform.store.refresh()
        # Nodes are processes that exist now, not what was declared.
        listed = self._platform.store.list()
        resources = [one for one in listed if not isinstance(one, MessagingNode)]
        excluded = [] if secrets else [one for one in resources if isinstance(one, Secret)]
        contents = archive.Contents(
            resources=[one for one in resources if one not in excluded],
            journal=data.journal,
            private=private_files(data) if secrets else [],
            about=await self._about(made, resources, excluded),
        )
        self._running = True
        return _Stream(archive.write(contents, self._platform.clock), self._ended)

    def _ended(self) -> None:
        self._running = False

    async def _about(
        self, made: str, resources: Sequence[Resource], excluded: Sequence[Resource]
    ) -> dict[str, Any]:
        """Return the metadata of the manifest."""
        observed = await self._platform.engine.observe()
        kinds = [one.kind for one in resources if one not in excluded]
        return {
            "made": made,
            "resources": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
            "leftOut": [f"{one.key.namespace}/{one.key.name}" for one in excluded],
            "messages": {
                one.uid: {"space": one.space, "address": one.name, "stored": one.stored}
                for one in observed.addresses
                if one.stored
            },
        }


class _Stream(StreamingResponse):
    """A streaming backup; always calls `ended`, even if the client left before the first byte."""

    def __init__(self, written: Generator[bytes, None, None], ended: Callable[[], None]) -> None:
        super().__init__(written, media_type="application/gzip")
        self._written = written
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._written.close()
            self._ended()


def private_files(data: DataDir) -> list[Path]:
    """Return the private files of the platform's identity: CA and tokens."""
    found = [data.token, data.decoy, *sorted(data.tls.iterdir())]
    return [path for path in found if path.is_file()]
