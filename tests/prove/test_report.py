"""The report states each verdict, and its chart has a mark for each message."""

import json
import re
import subprocess
from html.parser import HTMLParser

from prove.history import Event, Kill, What
from prove.judge import Verdict, judge
from prove.report import MEANINGS, ROWS, Run, page, summary

GOOD = [
    Event(0.0, What.SENT, "orders-0-1"),
    Event(0.1, What.ACCEPTED, "orders-0-1"),
    Event(0.2, What.RECEIVED, "orders-0-1", 1),
    Event(0.3, What.TAKEN, "orders-0-1", 1),
    Event(0.4, What.SENT, "payments-0-1"),
]
LOST = [Event(0.5, What.SENT, "<orders>-0-2"), Event(0.6, What.ACCEPTED, "<orders>-0-2")]

CANVAS = """
const calls = {fillRect: 0, fillText: 0};
globalThis.document = {getElementById: () => ({width: 1600, height: 500, getContext: () => ({
  fillRect: () => calls.fillRect++, fillText: () => calls.fillText++})})};
"""


def run_of(events: list[Event], left_over: int = 0) -> Run:
    return Run(7, 1.0, "again --seed 7", judge(events), events, [Kill(0.25, 0.35)], left_over)


class Scripts(HTMLParser):
    """Collects the scripts of a page, and every address that it would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.fetched: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script"
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)


def test_run_without_losses_passes() -> None:
    run = run_of(GOOD)
    assert run.good
    assert summary(run) == ("2 messages, 1 kills: 1 ok, 0 lost, 0 duplicate, 1 unknown; seed 7")
    assert "Nothing was lost" in page(run)


def test_run_with_a_loss_fails_and_shows_its_history() -> None:
    run = run_of(GOOD + LOST)
    assert not run.good
    text = page(run)
    assert "It failed" in text
    assert "&lt;orders&gt;-0-2: lost: its producer was told that it was accepted" in text
    assert "0.600 s accepted" in text


def test_report_page_explains_verdicts_and_counts_by_address() -> None:
    text = page(run_of(GOOD))
    for verdict in Verdict:
        assert f"<tr><th>{verdict}<td>{MEANINGS[verdict]}" in text
    assert f"<tr><th>orders<td>1<td>1<td>{ROWS['orders']}" in text
    assert "from 1 ms to 1 s" in text, "the scale of a row must fit its values"


def test_run_with_leftover_messages_fails() -> None:
    assert not run_of(GOOD, left_over=1).good


def test_report_chart_marks_each_message_and_loads_nothing() -> None:
    text = page(run_of(GOOD + LOST))
    parsed = Scripts()
    parsed.feed(text)
    assert parsed.fetched == []
    (script,) = parsed.scripts
    found = re.match(r"const run = (.*);$", script, re.MULTILINE)
    assert found is not None
    run = json.loads(found[1])
    assert [mark[3] for mark in run["marks"]] == [0, 3, 1], "faults are drawn last"
    done = subprocess.run(
        ["node", "-e", f"{CANVAS}{script}\nconsole.log(JSON.stringify(calls))"],
        check=True,
        capture_output=True,
        text=True,
    )
    lanes, kills, marks = len(run["lanes"]), 2 * len(run["kills"]), len(run["marks"])
    assert json.loads(done.stdout)["fillRect"] == lanes + kills + marks
