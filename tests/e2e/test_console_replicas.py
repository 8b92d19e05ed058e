"""Sessions of the console with two processes on one database."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from platform_process import Platform, running
from postgres_server import PostgresServer

pytestmark = pytest.mark.timeout(180)
SESSION = "/console/session"
COOKIE = "enmasse-session"


def code_of(platform: Platform) -> str:
    return platform.enmasse("console", "--print").strip().partition("#code=")[2]


def request(platform: Platform, method: str, cookie: str = "", **options: Any) -> httpx2.Response:
    headers = {"Cookie": f"{COOKIE}={cookie}"} | options.pop("headers", {})
    url = f"{platform.url('http')}{SESSION}"
    return httpx2.request(method, url, headers=headers, trust_env=False, timeout=30, **options)


def test_any_process_serves_a_session_and_a_code_works_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    environment = {"ENMASSE_STORE": postgres.new_database()}
    with (
        running(tmp_path / "one", environment=environment) as one,
        running(tmp_path / "other", "--node-name", "other", environment=environment) as other,
    ):
        pair = (one, other)
        for round_ in range(5):
            code = code_of(pair[round_ % 2])
            log_in = partial(request, method="POST", json={"code": code})
            with ThreadPoolExecutor(8) as threads:
                answers = [*threads.map(log_in, pair * 4)]
            assert sorted(one.status_code for one in answers) == [201] + [401] * 7
            session = next(one for one in answers if one.status_code == 201)
            cookie = session.cookies[COOKIE]
            assert [request(each, "GET", cookie).status_code for each in pair] == [200, 200]
            csrf = {"X-CSRF-Token": session.json()["csrf"]}
            ended = request(pair[round_ % 2], "DELETE", cookie, headers=csrf)
            assert ended.status_code == 204
            begin = time.monotonic()
            while any(request(each, "GET", cookie).status_code == 200 for each in pair):
                assert time.monotonic() - begin < 2, "the other process still has the session"
