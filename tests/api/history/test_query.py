"""Queries and their arithmetic."""

import time

import pytest

from enmasse.api.history.evaluation import Point, Steps, aggregated, evaluate, extrapolated, points
from enmasse.api.history.query import parse, seconds
from enmasse.api.history.rings import FINE, Row
from enmasse.api.history.storage import Run
from enmasse.base.errors import Code, Invalid

LABELS = {"__name__": "m", "namespace": "shop", "space": "a.shop", "address": "orders"}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("m", True),
        ("m{}", True),
        ('m{address="orders"}', True),
        ('m{address="other"}', False),
        ('m{address!="other", space=~"a.*"}', True),
        ("m{address=~'ord.+|x'}", True),
        ('m{address=~"ord"}', False),
        ('m{address!~"ord.*"}', False),
        ('m{address=""}', False),
    ],
)
def test_matchers_select_by_labels(text: str, selects: bool) -> None:
    assert parse(text).selector.selects(LABELS) is selects


def test_functions_and_aggregates() -> None:
    query = parse('sum by (space, namespace) (rate(m{address="a\\"b"}[1h30m]))')
    assert (query.aggregate, query.by) == ("sum", ("space", "namespace"))
    assert (query.function, query.range_s) == ("rate", 5400)
    assert parse("max(m) by (address)").by == ("address",)
    assert parse("avg(increase(m[5m]))").function == "increase"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected the name of a metric"),
        ("rate(m)", "rate needs a range"),
        ("m[5m]", "after the query is not supported"),
        ("histogram_quantile(0.9, m)", "histogram_quantile is not supported"),
        ("sum without (address) (m)", "`without` is not supported"),
        ("sum by (pod) (m)", "'pod' is not a label"),
        ("sum(sum(m))", "aggregate of an aggregate"),
        ("m + m", "after the query is not supported"),
        ('m{address=~"(a+)+"}', "pattern '(a+)+' is not supported"),
        ('m{pod="x"}', "a matcher is LABEL OPERATOR"),
        ('m{address="x"', "expected ',' at ''"),
        ("rate(m[5x])", "is not a duration"),
        ("rate(m[0s])", "above zero"),
        ("m" * 5000, "at most 4096 characters"),
    ],
)
def test_other_queries_are_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(text)
    assert problem in caught.value.message
    assert caught.value.code == Code.REQUEST_INVALID


def test_a_pattern_takes_bounded_time() -> None:
    matches = parse('m{address=~".*a.*b.*c.*d"}').selector.selects
    begin = time.perf_counter()
    assert not matches(LABELS | {"address": "abc" * 300})
    assert time.perf_counter() - begin < 30


def test_durations() -> None:
    assert [seconds(one) for one in ("30s", "5m", "1h", "7d", "1d2h3m4s")] == [
        *(30, 300, 3600, 604_800),
        93_784,
    ]


def test_values_hold_until_they_change_and_end_with_a_run() -> None:
    rows = [Row(100, (1,)), Row(130, (4,)), Row(150, None), Row(205, (9,))]
    runs = [Run(100, 160), Run(205, 220)]
    found = points(rows, 0, FINE, runs, (100, 230))
    assert found == [
        *(Point(100, 1), Point(110, 1), Point(120, 1), Point(130, 4), Point(140, 4)),
        *(Point(205, 9), Point(210, 9), Point(220, 9), Point(230, 9)),
    ]


def test_a_value_of_an_earlier_run_does_not_hold_in_a_later_one() -> None:
    assert points([Row(100, (1,))], 0, FINE, [Run(100, 110), Run(200, 210)], (195, 215)) == []


def test_increase_is_extrapolated_as_in_prometheus() -> None:
    # 100 per 10 s from 5 s after the start of the window to 5 s before its end.
    window = [Point(5 + 10 * number, 100 * number + 1000) for number in range(6)]
    assert extrapolated(window, 0, 60) == pytest.approx(600)
    # Far from the start, half an interval is added; a counter does not begin below zero.
    assert extrapolated(window, -100, 60) == pytest.approx(600)
    fresh = [Point(5 + 10 * number, 100 * number) for number in range(6)]
    assert extrapolated(fresh, 0, 60) == pytest.approx(550)


def test_a_restarted_counter_continues() -> None:
    window = [Point(0, 1000), Point(10, 1100), Point(20, 50), Point(30, 150)]
    assert extrapolated(window, 0, 30) == pytest.approx(250)


def test_rate_and_instant_values_at_steps() -> None:
    series = [Point(10 * number, 50 * number) for number in range(100)]
    steps = Steps(600, 620, 10)
    rates = evaluate(parse("rate(m[1m])"), series, steps, FINE)
    assert rates == {600: pytest.approx(5), 610: pytest.approx(5), 620: pytest.approx(5)}
    values = evaluate(parse("m"), series, Steps(985, 2000, 300), FINE)
    assert values == {985: 4900, 1285: 4950}, "a value is shown for five minutes"
    narrow = evaluate(parse("rate(m[10s])"), series, steps, FINE)
    assert narrow[600] == pytest.approx(5), "widened to two points"


def test_aggregates_by_labels() -> None:
    series = [
        ({"space": "a", "address": "x"}, {0.0: 1.0, 10.0: 3.0}),
        ({"space": "a", "address": "y"}, {0.0: 5.0}),
        ({"space": "b", "address": "z"}, {0.0: 7.0}),
    ]
    by_space = aggregated(parse("sum by (space) (m)"), series)
    assert by_space[(("space", "a"),)] == {0.0: 6.0, 10.0: 3.0}
    assert aggregated(parse("max(m)"), series) == {(): {0.0: 7.0, 10.0: 3.0}}
    assert aggregated(parse("avg by (space) (m)"), series)[(("space", "a"),)][0.0] == 3.0
