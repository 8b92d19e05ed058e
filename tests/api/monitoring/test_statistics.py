"""Live statistics and rates."""

from asgi_platform import ADDRESSES, SPACES, Served
from doubles import TestClock, address, space
from enmasse.api.monitoring.statistics import Statistics
from enmasse.engines import AddressStatistics, Observed
from fake_engine import FakeEngine


class Growing(FakeEngine):
    """An engine through which 100 messages of 10 bytes pass each second of a clock."""

    def __init__(self, clock: TestClock) -> None:
        super().__init__()
        self.clock = clock
        self.observed = 0

    async def observe(self) -> Observed:
        self.observed += 1
        count = round(100 * self.clock.monotonic())
        stats = AddressStatistics("u", "s", "a", 1, 2, delivered=count, bytes=10 * count)
        return Observed(1, [stats])


async def test_first_statistics_request_takes_two_samples() -> None:
    clock = TestClock()
    engine = Growing(clock)
    stats = (await Statistics(engine, clock).by_uid())["u"]
    assert engine.observed == 2
    assert clock.elapsed_s == 0.5
    assert stats["deliveredPerSecond"] == 100.0
    assert stats["bytesPerSecond"] == 1000.0
    assert (stats["senders"], stats["receivers"]) == (1, 2)


async def test_later_statistics_request_measures_since_the_previous_one() -> None:
    clock = TestClock()
    engine = Growing(clock)
    statistics = Statistics(engine, clock)
    await statistics.by_uid()
    clock.advance(4.0)
    assert (await statistics.by_uid())["u"]["deliveredPerSecond"] == 100.0
    assert engine.observed == 3
    assert clock.elapsed_s == 4.5


async def test_requests_in_quick_succession_do_not_wait() -> None:
    clock = TestClock()
    engine = Growing(clock)
    statistics = Statistics(engine, clock)
    for _ in range(10):
        assert (await statistics.by_uid())["u"]["deliveredPerSecond"] == 100.0
    assert clock.elapsed_s == 0.5, "only the first one"
    for _ in range(100):
        clock.advance(0.1)
        assert (await statistics.by_uid())["u"]["deliveredPerSecond"] == 100.0
    assert round(clock.elapsed_s, 3) == 10.5
    assert engine.observed == 111


async def test_an_old_sample_is_not_used() -> None:
    clock = TestClock()
    engine = Growing(clock)
    statistics = Statistics(engine, clock)
    await statistics.by_uid()
    clock.advance(3600)
    assert (await statistics.by_uid())["u"]["deliveredPerSecond"] == 100.0
    assert engine.observed == 4


async def test_recreated_address_has_no_negative_rate() -> None:
    clock = TestClock()
    engine = FakeEngine()
    statistics = Statistics(engine, clock)
    engine.statistics = [AddressStatistics("u", "s", "a", delivered=50)]
    await statistics.by_uid()
    clock.advance(1.0)
    engine.statistics = [AddressStatistics("u", "s", "a", delivered=10)]
    assert (await statistics.by_uid())["u"]["deliveredPerSecond"] == 0.0


async def test_statistics_are_included_only_on_request(served: Served) -> None:
    await served.http.post(SPACES, json={"metadata": {"name": "default"}, **space_spec()})
    made = (await served.http.post(ADDRESSES, json=address().document() | {"status": {}})).json()
    served.engine.statistics = [AddressStatistics(made["metadata"]["uid"], "s", "orders", 3, 4)]
    plain = (await served.http.get(f"{ADDRESSES}/default.orders")).json()
    assert "statistics" not in plain["status"]
    for path in (ADDRESSES, f"{ADDRESSES}/default.orders"):
        answer = (await served.http.get(path, params={"statistics": "true"})).json()
        shown = answer["items"][0] if "items" in answer else answer
        assert shown["status"]["statistics"]["senders"] == 3
        assert shown["status"]["statistics"]["receivers"] == 4


async def test_kubectl_describe_gets_statistics_and_the_stored_version(served: Served) -> None:
    await served.http.post(SPACES, json={"metadata": {"name": "default"}, **space_spec()})
    made = (await served.http.post(ADDRESSES, json=address().document())).json()
    served.engine.statistics = [AddressStatistics(made["metadata"]["uid"], "s", "orders", 3, 4)]
    path, header = f"{ADDRESSES}/default.orders", "Kubectl-Command"
    shown = (await served.http.get(path, headers={header: "kubectl describe"})).json()
    assert shown["status"]["statistics"]["receivers"] == 4
    for command in ("kubectl get", "kubectl edit"):
        plain = (await served.http.get(path, headers={header: command})).json()
        assert "statistics" not in plain["status"]
        assert plain["metadata"] == shown["metadata"]
    whole = (await served.http.get(ADDRESSES, headers={header: "kubectl describe"})).json()
    assert "statistics" not in whole["items"][0]["status"], "kubectl asks for each one"


def space_spec() -> dict[str, object]:
    return {"spec": space().document()["spec"]}
