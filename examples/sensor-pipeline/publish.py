"""Publishes all series to the stream `sensor-readings`: `python publish.py URL [SPEED]`."""

import asyncio
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

import series

from enmasse.client import connect
from enmasse.messaging import Accepted, Data, Message, Properties

ADDRESS = "sensor-readings"
IN_FLIGHT_MAX = 500


def scheduled(
    every: Sequence[series.Series], speed: float | None
) -> Iterator[tuple[float, str, str]]:
    """Yield messages in sending order: seconds after the start, device, body.

    All series start together and are replayed at `speed` times real time; without a speed each is
    spread over one second, so that series interleave.
    """

    def of(one: series.Series) -> Iterator[tuple[float, str, str]]:
        start, end = one.times_us[0], one.times_us[-1]
        pace = series.US_PER_S * speed if speed else end - start + 1
        for time_us, body in series.records(one):
            yield (time_us - start) / pace, one.device, json.dumps(body)

    return merge(*(of(one) for one in every))


async def publish(url: str, messages: Iterable[tuple[float, str, str]], *, paced: bool) -> int:
    """Send messages, each at its time if `paced`; return their number once all are stored."""
    loop, count = asyncio.get_running_loop(), 0
    in_flight: deque[asyncio.Future[object]] = deque()

    async def settled() -> None:
        if (outcome := await in_flight.popleft()) != Accepted():
            raise SystemExit(f"{ADDRESS} did not accept a reading: {outcome}")

    async with connect(url) as session, session.sender(ADDRESS) as sender:
        start = loop.time()
        for due_s, device, body in messages:
            if paced and (ahead_s := due_s - (loop.time() - start)) > 0:
                await asyncio.sleep(ahead_s)
            properties = Properties(group_id=device, content_type="application/json")
            in_flight.append(await sender.post(Message(Data([body.encode()]), properties)))
            count += 1
            if len(in_flight) >= IN_FLIGHT_MAX:
                await settled()
        while in_flight:
            await settled()
    return count


def main() -> None:
    """Publish what the packages contain."""
    url, *rest = sys.argv[1:]
    speed = float(rest[0]) if rest else None
    messages = scheduled(series.load(), speed)
    print(f"{asyncio.run(publish(url, messages, paced=speed is not None)):,} readings are stored")


if __name__ == "__main__":
    main()
