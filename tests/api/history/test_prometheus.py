"""Past values from Prometheus: how queries are written, and that both give the same answers."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from asgi_platform import Served, serving
from enmasse.api.console.routes import ConsoleOptions
from enmasse.api.history.history import History
from enmasse.api.history.pages import METRICS
from enmasse.api.history.prometheus import Period, Prometheus, promql
from enmasse.api.history.query import parse
from enmasse.api.monitoring.samples import Samples
from enmasse.auth.fetching import Answer
from enmasse.auth.grants import Unanswered
from enmasse.base.errors import Unavailable
from enmasse.base.rotated import RotatedFile
from enmasse.engines import AddressStatistics, Observed
from fake_engine import FakeEngine
from prometheus_server import prometheus_server

RANGE = "/apis/enmasse.io/v1beta1/query_range"
STEPS = 120


@pytest.mark.parametrize(
    ("query", "written"),
    [
        (
            "enmasse_space_links",
            'label_replace(sum by (space) (enmasse_space_links{space=~"[^.]+[.]shop"}),'
            ' "namespace", "$1", "space", "[^.]+[.](.*)")',
        ),
        (
            'sum by (namespace) (rate(enmasse_address_bytes_total{address!="a\\"b"}[5m]))',
            "sum by (namespace) (label_replace(sum by (space, address)"
            ' (rate(enmasse_address_bytes_total{address!="a\\"b",space=~"[^.]+[.]shop"}[300s])),'
            ' "namespace", "$1", "space", "[^.]+[.](.*)"))',
        ),
        (
            'max(enmasse_space_links{namespace!~"a|b",space="x.shop"})',
            'max by () (label_replace(sum by (space) (enmasse_space_links{space!~"[^.]+[.](?:a|b)",'
            'space="x.shop",space=~"[^.]+[.]shop"}), "namespace", "$1", "space", "[^.]+[.](.*)"))',
        ),
    ],
)
def test_a_query_is_written_with_its_namespace(query: str, written: str) -> None:
    assert promql(parse(query), "shop") == written


def test_a_name_cannot_leave_its_matcher() -> None:
    for name in ('"} or up{a="', "\\", "a\nb", ".*"):
        escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        text = promql(parse(f'enmasse_space_links{{space="{escaped}"}}'), "shop")
        assert f'{{space="{escaped}",space=~"[^.]+[.]shop"}}' in text


async def test_failures_of_the_server_say_what_to_do() -> None:
    async def refusing(url: str, **_: Any) -> Answer:
        raise Unanswered(f"{url} does not answer within 20 s")

    async def odd(_url: str, **_: Any) -> Answer:
        return Answer(200, b'{"status": "success", "data": {"result": 5}}')

    async def missing(_url: str, **_: Any) -> Answer:
        return Answer(404, b"not found")

    for fetch in (refusing, odd, missing):
        prometheus = Prometheus("http://127.0.0.1:9", fetch=fetch)
        with pytest.raises(Unavailable, match=r"http://127.0.0.1:9") as caught:
            await prometheus.query_range(parse("enmasse_space_links"), None, Period(0, 60, 10))
        assert "query=" not in str(caught.value)


class Busy(FakeEngine):
    """An engine whose counters rise by random amounts, and one restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.random = Random(19)
        self.counts = [[0, 0, 0] for _ in range(4)]
        self.samples = 0

    async def observe(self) -> Observed:
        self.samples += 1
        if self.samples == STEPS // 2:
            self.counts[0] = [0, 0, 0]
        for one in self.counts:
            for at in range(3):
                one[at] += self.random.randrange(1000)
        return Observed(
            0,
            [
                AddressStatistics(
                    f"u{number}",
                    ("one.shop", "two.shop", "one.lab", "one.lab")[number],
                    f"address-{number}",
                    stored=self.random.randrange(100),
                    delivered=delivered,
                    bytes=size,
                    enqueued=enqueued,
                )
                for number, (delivered, size, enqueued) in enumerate(self.counts)
            ],
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("prometheus")


@pytest.fixture
async def recorded(
    served: Served, folder: Path, tmp_path: Path
) -> AsyncIterator[tuple[Served, str]]:
    """Twenty minutes of history, and a Prometheus with the same points."""
    history = History(tmp_path / "h.db", Samples(Busy(), served.clock), served.clock)
    served.histories.append(history)
    for _ in range(STEPS):
        await history.record()
        served.clock.advance(10)
    await asyncio.to_thread(write_blocks, await exposition(served), folder)
    with prometheus_server(folder) as url:
        yield served, url
    await history.close()


def times(served: Served, step_s: int) -> dict[str, float]:
    """A period beside the points: Prometheus counted a point at the start of a range before 3.0."""
    now_s = served.clock.now().timestamp() // 10 * 10 + 3
    return {"start": now_s - 900, "end": now_s - 60, "step": step_s}


async def asked(served: Served, query: str, **parameters: float) -> list[dict[str, Any]]:
    answer = await served.http.get(RANGE, params={"query": query} | parameters)
    assert answer.status_code == 200, answer.text
    result: list[dict[str, Any]] = answer.json()["data"]["result"]
    return result


async def exposition(served: Served) -> str:
    """The recorded points as OpenMetrics, as `/metrics` would have shown them."""
    now_s = served.clock.now().timestamp() // 10 * 10
    lines = []
    for metric in METRICS:
        lines.append(f"# TYPE {metric.removesuffix('_total')} unknown")
        for one in await asked(served, metric, start=now_s - 1200, end=now_s, step=10):
            labels = {k: v for k, v in one["metric"].items() if k in ("space", "address")}
            inside = ",".join(f'{name}="{text}"' for name, text in labels.items())
            lines += [f"{metric}{{{inside}}} {value} {at}" for at, value in one["values"]]
    return "\n".join([*lines, "# EOF", ""])


def write_blocks(text: str, folder: Path) -> None:
    file = folder / "points.txt"
    file.write_text(text)
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", file, folder / "data"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


QUERIES = [
    "enmasse_address_stored_messages",
    'enmasse_address_stored_messages{space=~"one.*",address!="address-3"}',
    "rate(enmasse_address_delivered_total[1m])",
    "rate(enmasse_address_delivered_total[5m])",
    'increase(enmasse_address_bytes_total{namespace="lab"}[2m])',
    'increase(enmasse_address_enqueued_messages_total{namespace!~"sh.p"}[90s])',
    "sum(rate(enmasse_address_bytes_total[1m]))",
    "sum by (space) (increase(enmasse_address_delivered_total[3m]))",
    "avg by (namespace) (rate(enmasse_address_enqueued_messages_total[2m]))",
    "max by (namespace, space) (enmasse_address_stored_messages)",
    "avg(enmasse_address_stored_messages)",
]


@pytest.mark.slow
async def test_a_real_prometheus_gives_the_same_answers(
    recorded: tuple[Served, str], trail: RotatedFile, logins: RotatedFile
) -> None:
    served, url = recorded
    options = ConsoleOptions(prometheus=Prometheus(url))
    async with serving(trail, logins, options) as other:
        for query in QUERIES:
            for step_s in (10, 60):
                period = times(served, step_s)
                own = by_labels(await asked(served, query, **period))
                theirs = by_labels(await asked(other, query, **period))
                assert own.keys() == theirs.keys() and own, query
                for labels, values in own.items():
                    assert values.keys() == theirs[labels].keys(), (query, labels)
                    for at, value in values.items():
                        expected = pytest.approx(theirs[labels][at], rel=0.01, abs=1e-9)
                        assert value == expected, (query, labels, at)
        for namespace, found in (("lab", {"one.lab"}), ("shop", {"one.shop", "two.shop"})):
            path = f"/apis/enmasse.io/v1beta1/namespaces/{namespace}/query_range"
            answer = await other.http.get(
                path, params={"query": "enmasse_address_stored_messages"} | times(served, 60)
            )
            spaces = {one["metric"]["space"] for one in answer.json()["data"]["result"]}
            assert spaces == found


def by_labels(result: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[float, float]]:
    return {
        tuple(sorted(one["metric"].items())): {
            float(at): float(value) for at, value in one["values"]
        }
        for one in result
    }
