"""Structured logs on stderr: JSON off a terminal, coloured lines on one. Never a secret.

Everything logs through `structlog.get_logger()`; records of the standard library's `logging`, as
the HTTP server writes them, pass through the same processors.
"""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

SECRET_KEYS = frozenset(
    {"password", "token", "authorization", "verifiers", "stored_key", "server_key", "secret"}
)
"""Keys whose values are never written, whoever logs them."""


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send all logs of at least `level` to `stream` (default: stderr). May be called again."""
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
        # The default would show local variables too, such as a request with a password.
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
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # A library at level debug writes whatever passes through it: the database driver whole rows,
    # keys of users included. Only our own records follow the level asked for.
    root.setLevel(logging.WARNING)
    logging.getLogger("enmasse").setLevel(level.upper())


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the values of secret keys, at the top of the record and in mappings inside it."""
    for key, value in event.items():
        if key.lower() in SECRET_KEYS:
            event[key] = "***"
        elif isinstance(value, dict):
            event[key] = hide_secrets(_logger, _method, dict(value))
    return event


def _unchanged(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Leave exceptions to the console's own renderer."""
    return event
