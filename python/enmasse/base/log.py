"""Structured logs on stderr: JSON, or coloured lines on a terminal. Never a secret.

Everything logs through `structlog.get_logger()`; records of the standard library's `logging`, such
as those of the HTTP server, pass through the same processors.
"""

import asyncio
import logging
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

SECRET_KEYS = frozenset(
    {"password", "token", "authorization", "verifiers", "stored_key", "server_key", "secret"}
)
"""Keys whose values are never written."""


RECENT_MAX = 2_000
"""Maximum records in memory, for the logs page of the API; the oldest are dropped."""


class Recent(logging.Handler):
    """The latest records as lines of JSON, and a stream of new ones."""

    def __init__(self, maximum: int = RECENT_MAX) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=maximum)
        self._count = 0
        """Number of records so far."""

        self._mutex = threading.Lock()
        self._followers: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Store a record; called on the thread that logs."""
        line = self.format(record)
        with self._mutex:
            self._lines.append(line)
            self._count += 1
            followers = list(self._followers)
        for loop, event in followers:
            loop.call_soon_threadsafe(event.set)

    def last(self, tail: int) -> list[str]:
        """Return the last `tail` records, the oldest first."""
        with self._mutex:
            return list(self._lines)[-tail:] if tail > 0 else []

    async def follow(self, tail: int) -> AsyncIterator[str]:
        """Yield the last `tail` records and then new ones, until cancelled.

        A slow reader skips the oldest records and receives their number.
        """
        come = asyncio.Event()
        follower = (asyncio.get_running_loop(), come)
        with self._mutex:
            self._followers.add(follower)
            seen = self._count - min(tail, len(self._lines))
        try:
            while True:
                come.clear()
                with self._mutex:
                    first = self._count - len(self._lines)
                    lines = list(self._lines)[max(seen - first, 0) :]
                    missed, seen = max(first - seen, 0), self._count
                if missed:
                    yield f'{{"event": "{missed} records were missed", "level": "warning"}}'
                for line in lines:
                    yield line
                await come.wait()
        finally:
            with self._mutex:
                self._followers.discard(follower)


RECENT = Recent()
"""The records of this process since `configure`."""


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send all records of at least `level` to `stream` (default: stderr). May be called again."""
    out = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info if not out.isatty() else _unchanged,
        hide_secrets,
    ]
    renderer: Processor = (
        # The default also prints local variables, such as a request with a password.
        structlog.dev.ConsoleRenderer(
            colors=True, exception_formatter=structlog.dev.plain_traceback
        )
        if out.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    RECENT.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler, RECENT]
    # At level debug libraries log their data: the database driver whole rows, with keys of users.
    # Only our own records follow the configured level.
    root.setLevel(logging.WARNING)
    logging.getLogger("enmasse").setLevel(level.upper())


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the values of secret keys in a record and in its nested mappings."""
    for key, value in event.items():
        if key.lower() in SECRET_KEYS:
            event[key] = "***"
        elif isinstance(value, dict):
            event[key] = hide_secrets(_logger, _method, dict(value))
    return event


def _unchanged(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Leave exceptions to the renderer of the console."""
    return event
