"""Live values as a stream and as a document, and the overview."""

import asyncio
import json
from typing import Any

import pytest

from asgi_platform import ADDRESSES, SPACES, Served, bearer, body
from doubles import TestClock, queue, space
from enmasse.api.monitoring.samples import COST_FACTOR, FRESH_S, WINDOW_MAX_S, Samples
from enmasse.engines import AddressStatistics, Observed, SpaceStatistics
from fake_engine import FakeEngine

BASE = "/apis/enmasse.io/v1beta1"
SAMPLES = f"{BASE}/namespaces/default/samples"


@pytest.fixture
async def busy(served: Served) -> Served:
    """A platform with a queue through which messages pass."""
    await served.http.post(SPACES, json=body(space()))
    made = (await served.http.post(ADDRESSES, json=body(queue()))).json()
    await served.settle()
    uid = made["metadata"]["uid"]

    async def observe() -> Observed:
        count = round(100 * served.clock.monotonic())
        return Observed(
            1, [AddressStatistics(uid, "default.default", "orders", stored=7, delivered=count)]
        )

    served.engine.observe = observe  # type: ignore[method-assign]
    served.engine.carried = [SpaceStatistics("u", "default.default", connections=2)]
    return served


async def test_a_sample_has_the_values_of_named_addresses_and_the_totals(busy: Served) -> None:
    answer = await busy.http.get(SAMPLES, params={"address": "default.orders", "spaces": "true"})
    document = answer.json()
    assert document["addresses"]["default/default.orders"]["deliveredPerSecond"] == 100.0
    assert document["spaces"]["default/default"]["stored"] == 7
    assert document["totals"]["stored"] == 7
    assert document["totals"]["connections"] == 2
    everywhere = await busy.http.get(
        f"{BASE}/samples", params={"address": "default/default.orders"}
    )
    assert everywhere.json()["addresses"] == document["addresses"]
    other = await busy.http.get(f"{BASE}/namespaces/other/samples", params={"spaces": "1"})
    assert other.json()["totals"]["stored"] == 0
    assert other.json()["spaces"] == {}


async def test_the_stream_sends_each_sample_and_the_end(
    busy: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = {"follow": "true", "address": "default.orders"}
    waits: list[float] = []
    forward = busy.clock.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        busy.ready = len(waits) < 12
        await forward(seconds)

    monkeypatch.setattr(busy.clock, "sleep", sleep)
    answer = await busy.http.get(SAMPLES, params=parameters)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [one for one in answer.text.split("\n\n") if one]
    samples = [json.loads(one.split("data: ")[1]) for one in events[:-1]]
    assert len(samples) > 3
    assert all(
        one["addresses"]["default/default.orders"]["deliveredPerSecond"] == 100.0 for one in samples
    )
    assert events[-1] == 'event: end\ndata: {"reason": "stopping"}'


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("address=x" + "&address=x" * 200, "at most 200 times"),
        ("interval=1", "must be 2 to 60 seconds"),
        ("follow=maybe", "must be true or false"),
    ],
)
async def test_wrong_parameters_are_refused(busy: Served, query: str, message: str) -> None:
    answer = await busy.http.get(f"{SAMPLES}?{query}")
    assert answer.status_code == 422
    assert message in answer.json()["message"]


async def test_a_stream_over_all_namespaces_names_them(busy: Served) -> None:
    answer = await busy.http.get(f"{BASE}/samples?address=orders")
    assert "must be NAMESPACE/NAME" in answer.json()["message"]
    answer = await busy.http.get(f"{BASE}/samples?space=default")
    assert "needs a namespace" in answer.json()["message"]


async def test_a_tenant_sees_its_namespace_only(busy: Served) -> None:
    tenant = await bearer(busy, "ci.x", tenant_view="default")
    for page in ("samples", "overview"):
        assert (await tenant.get(f"{BASE}/namespaces/default/{page}")).status_code == 200
        assert (await tenant.get(f"{BASE}/namespaces/other/{page}")).status_code == 403
        assert (await tenant.get(f"{BASE}/{page}")).status_code == 403


async def test_the_overview_counts(busy: Served) -> None:
    found: dict[str, Any] = (await busy.http.get(f"{BASE}/overview")).json()
    assert found["addresses"] == {
        "total": 1,
        "ready": 1,
        "byType": {"queue": 1},
        "byPhase": {"Active": 1},
    }
    assert found["addressSpaces"] == {"total": 1, "ready": 1}
    assert found["top"]["stored"] == [
        {"namespace": "default", "name": "default.orders", "value": 7}
    ]
    assert found["top"]["oldestAge"] == []
    assert found["node"]["connections"] == 1
    tenant = await bearer(busy, "ci.x", tenant_view="*")
    assert "node" not in (await tenant.get(f"{BASE}/overview")).json()


async def test_the_overview_says_what_is_not_ready(busy: Served) -> None:
    await busy.store.put([queue("absent.more")])
    await busy.settle()
    busy.clock.advance(10)
    found = (await busy.http.get(f"{BASE}/namespaces/default/overview")).json()
    (lacking,) = found["notReady"]
    assert (lacking["kind"], lacking["name"]) == ("Address", "absent.more")
    assert "absent" in lacking["messages"][0]
    assert found["addresses"]["ready"] == 1


class Slow(FakeEngine):
    """An engine whose statistics take a while, and some of a processor."""

    def __init__(self, clock: TestClock, seconds: float, cost_s: float = 0.0) -> None:
        super().__init__()
        self.clock, self.seconds, self.cost_s, self.observed = clock, seconds, cost_s, 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def observe(self) -> Observed:
        self.observed += 1
        self.clock.advance(self.seconds)
        await self.may_answer.wait()
        await asyncio.sleep(0)
        return Observed(0, [], cost_s=self.cost_s)


async def test_concurrent_readers_share_one_sampling() -> None:
    engine = Slow(TestClock(), 0.01)
    samples = Samples(engine, engine.clock)
    found = await asyncio.gather(*(samples.latest() for _ in range(100)))
    assert len({one.number for one in found}) == 1
    assert engine.observed == 2, "two readings make the first window"


async def test_readers_of_a_sample_that_took_long_share_it() -> None:
    engine = Slow(TestClock(), 2 * FRESH_S)
    samples = Samples(engine, engine.clock)
    found = await asyncio.gather(*(samples.latest() for _ in range(100)))
    assert len({one.number for one in found}) == 1
    assert engine.observed == 2


async def test_expensive_samples_are_taken_less_often() -> None:
    engine = Slow(TestClock(), 1.0, cost_s=1.0)
    samples = Samples(engine, engine.clock)
    first = await samples.latest()
    engine.clock.advance(FRESH_S + 1)
    assert await samples.latest() is first
    engine.clock.advance(COST_FACTOR)
    assert await samples.latest() is not first


async def test_samples_of_a_busy_machine_are_taken_as_often_as_others() -> None:
    engine = Slow(TestClock(), 1.0, cost_s=0.1)
    samples = Samples(engine, engine.clock)
    first = await samples.latest()
    engine.clock.advance(FRESH_S + 0.01)
    assert await samples.latest() is not first


async def test_work_of_the_event_loop_is_part_of_the_cost_of_a_sample() -> None:
    engine = Slow(TestClock(), 0.0, cost_s=0.5)
    moments = iter((0.0, 0.0, 1.0, 2.5))
    engine.clock.thread_s = lambda: next(moments)  # type: ignore[method-assign]
    sample = await Samples(engine, engine.clock).latest()
    assert sample.now.cost_s == 2.0


async def test_a_list_does_not_wait_while_another_reader_renews_the_sample() -> None:
    engine = Slow(TestClock(), 0.0)
    samples = Samples(engine, engine.clock)
    first = await samples.recent()
    engine.clock.advance(FRESH_S + 1)
    engine.may_answer.clear()
    async with asyncio.TaskGroup() as tasks:
        renewal = tasks.create_task(samples.latest())
        await asyncio.sleep(0)
        assert await samples.recent() is first
        engine.may_answer.set()
    second = renewal.result()
    assert second.number == first.number + 1
    assert await samples.recent() is second
    engine.clock.advance(WINDOW_MAX_S + 1)
    assert (await samples.recent()).number == second.number + 1, "it waits rather than show this"


async def test_an_outdated_sample_is_no_start_of_a_window() -> None:
    engine = Slow(TestClock(), 0.0)
    samples = Samples(engine, engine.clock)
    await samples.latest()
    engine.clock.advance(1000)
    assert (await samples.latest()).window_s == 0.5
