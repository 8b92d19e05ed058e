"""Dead letters by cause and origin: what failed, where, and how often."""

from asyncio import get_running_loop
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from enmasse.api.messages.documents import parsed
from enmasse.api.platform import Platform
from enmasse.engines import Operation, Slice, StoredMessage
from enmasse.engines.protocol import SLICE_MESSAGES_MAX
from enmasse.resources import Address
from enmasse.resources.model import Model

CAUSE, ORIGIN = "x-opt-dead-letter-cause", "x-opt-dead-letter-origin"
DESCRIPTION = "x-opt-dead-letter-description"

EXAMINED_MAX = 10_000
"""Maximum messages of one answer."""

SUMMARY_S = 10.0
"""Time after which an answer has what was found so far. A slice may end without a message: when
the disk is slow, or when a selector matches none of the messages examined.
"""

IDS_MAX = 10
"""Ids that are named of each group."""

GROUPS_MAX = 1_000
"""Maximum groups; messages of further ones are counted in none."""


class DeadLettersRequest(Model):
    """The body of a request."""

    selector: str | None = None
    filter: str | None = None
    limit: Annotated[int, Field(strict=True, ge=1, le=EXAMINED_MAX)] = EXAMINED_MAX
    continue_: Annotated[str | None, Field(alias="continue")] = None


@dataclass
class _Group:
    messages: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    newest_ms: int = 0
    description: str | None = None
    ids: list[int] = field(default_factory=list)

    def add(self, one: StoredMessage, description: object) -> None:
        self.oldest_ms = min(self.oldest_ms or one.enqueued_ms, one.enqueued_ms)
        self.newest_ms = max(self.newest_ms, one.enqueued_ms)
        self.messages += 1
        self.bytes += one.bytes
        if len(self.ids) < IDS_MAX:
            self.ids.append(one.id)
        if self.description is None and isinstance(description, str):
            self.description = description


Groups = dict[tuple[str, str], _Group]


async def summary(
    platform: Platform, address: Address, body: dict[str, Any], shown_time: Any
) -> dict[str, Any]:
    """Return the groups, largest first; `shown_time` formats milliseconds since 1970."""
    wanted: DeadLettersRequest = parsed(body, DeadLettersRequest)
    groups: Groups = {}
    end_s = get_running_loop().time() + SUMMARY_S
    examined, size, rest = 0, 0, wanted.continue_
    while examined < wanted.limit:
        part = Slice(
            limit=min(SLICE_MESSAGES_MAX, wanted.limit - examined),
            selector=wanted.selector,
            filter=wanted.filter,
            after=rest,
        )
        done = await platform.engine.manage(address.metadata.uid or "", Operation.PEEK, part)
        collect(groups, done.found)
        examined, size, rest = examined + done.messages, size + done.bytes, done.rest
        if rest is None or get_running_loop().time() >= end_s:
            break
    shown: dict[str, Any] = {
        "messages": examined,
        "bytes": size,
        "complete": rest is None,
        "groups": [
            {
                "cause": cause,
                "origin": origin,
                "messages": one.messages,
                "bytes": one.bytes,
                "oldest": shown_time(one.oldest_ms),
                "newest": shown_time(one.newest_ms),
                "filter": filter_of(cause, origin),
                "ids": one.ids,
            }
            | ({"description": one.description} if one.description else {})
            for (cause, origin), one in sorted(
                groups.items(), key=lambda item: item[1].messages, reverse=True
            )
        ],
    }
    return shown | ({"continue": rest} if rest is not None else {})


def collect(groups: Groups, found: Iterable[StoredMessage]) -> None:
    """Add messages to their groups. Pure."""
    for one in found:
        annotations = one.message.annotations if one.message is not None else {}
        key = str(annotations.get(CAUSE, "unknown")), str(annotations.get(ORIGIN, "unknown"))
        if key not in groups and len(groups) >= GROUPS_MAX:
            continue
        groups.setdefault(key, _Group()).add(one, annotations.get(DESCRIPTION))


def filter_of(cause: str, origin: str) -> str:
    """Return the SQL filter expression that selects a group."""
    return " AND ".join(
        f"m.[{name}] IS NULL" if value == "unknown" else f"m.[{name}] = {_quoted(value)}"
        for name, value in ((CAUSE, cause), (ORIGIN, origin))
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
