"""Tables of retained messages and MQTT sessions."""

from collections.abc import Sequence
from typing import Any

from enmasse.cli.output.printing import columns

Document = dict[str, Any]


def table(items: Sequence[Document]) -> str:
    """Return retained messages as a table."""
    rows = [
        [one.get("topic"), one["bytes"], one["enqueued"], one.get("expires", "never"), _body(one)]
        for one in items
    ]
    return columns(["TOPIC", "BYTES", "PUBLISHED", "EXPIRES", "BODY"], rows)


def sessions(items: Sequence[Document]) -> str:
    """Return MQTT sessions as a table."""
    rows = [
        [
            one["kind"],
            one["clientId"],
            one.get("user", "-"),
            one.get("connection", "-"),
            one.get("expirySeconds", "never"),
            one["subscriptionCount"],
            one["will"]["topic"] if "will" in one else "-",
        ]
        for one in items
    ]
    return columns(["KIND", "CLIENT ID", "USER", "CONNECTION", "EXPIRY S", "FILTERS", "WILL"], rows)


def _body(one: Document) -> str:
    body = one.get("message", {}).get("body")
    return "" if body is None else str(body)[:60]
