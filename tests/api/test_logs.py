"""The platform's last log records, over the API."""

import asyncio
import contextlib
import io
import json
import logging

import pytest
import structlog

from asgi_platform import Served
from enmasse.api.app import BASE
from enmasse.base import log


@pytest.fixture(autouse=True)
def logged() -> None:
    log.configure("info", io.StringIO())


async def test_T_AS_16_last_log_records_are_returned_without_secrets(served: Served) -> None:
    logger = structlog.get_logger("enmasse.test")
    for number in range(3):
        logger.info("counted", number=number, password="pencil")
    answer = await served.http.get(f"{BASE}/logs", params={"tail": "2"})
    records = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["number"] for one in records] == [1, 2]
    assert {one["password"] for one in records} == {"***"}
    assert (await served.http.get(f"{BASE}/logs", params={"tail": "0"})).text == ""
    assert (await served.http.get(f"{BASE}/logs", params={"tail": "x"})).status_code == 400
    assert (await served.client().get(f"{BASE}/logs")).status_code == 401


async def test_follow_yields_records_as_they_are_logged() -> None:
    recent = log.Recent(maximum=3)
    record = logging.LogRecord("enmasse", logging.INFO, "", 0, "%s", ("first",), None)
    recent.emit(record)
    lines = recent.follow(tail=1)
    assert await anext(lines) == "first"
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)
    await asyncio.to_thread(recent.handle, logging.makeLogRecord({"msg": "second"}))
    assert await asyncio.wait_for(waiting, 10) == "second"
    await lines.aclose()
    with contextlib.suppress(StopAsyncIteration):
        await anext(lines)


async def test_slow_follower_receives_the_count_of_missed_records() -> None:
    recent = log.Recent(maximum=3)
    lines = recent.follow(tail=0)
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)
    for number in range(8):
        recent.emit(logging.makeLogRecord({"msg": f"{number}"}))
    assert json.loads(await waiting)["event"] == "5 records were missed"
    assert [await anext(lines) for _ in range(3)] == ["5", "6", "7"]
    assert recent.last(2) == ["6", "7"]
