"""The history as a picture: one HTML file that needs nothing else."""

import html
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prove.history import Event, Kill
from prove.judge import Judged, Verdict

COLOURS = {
    Verdict.OK: "#3a9d5d",
    Verdict.LOST: "#d62728",
    Verdict.DUPLICATE: "#ff9f0e",
    Verdict.UNKNOWN: "#8a8f98",
}
MEANINGS = {
    Verdict.OK: "stored and consumed, or refused and never seen",
    Verdict.LOST: "accepted, and no consumer ever got it: a fault",
    Verdict.DUPLICATE: "delivered again after its acceptance was committed: a fault",
    Verdict.UNKNOWN: "the platform died before it answered the producer, and nothing of the message"
    " was stored; the producer has to send it again, so this is no fault",
}
ROWS = {
    "orders": "a queue with two producers and two consumers; rejections go to the dead letter",
    "payments": "a queue with one producer and two consumers, and the same dead letter",
    "once": "a queue that detects duplicates; its producer sends again what was not answered",
}
"""What passes through the addresses that the rows of the picture are named after."""

FAULTY = (Verdict.LOST, Verdict.DUPLICATE)
FAULTS_SHOWN = 50
"""Messages whose history is written out."""


@dataclass(frozen=True)
class Run:
    """A run that is over."""

    seed: int
    seconds: float
    command: str
    """Repeats it."""
    judged: Mapping[str, Judged]
    events: Sequence[Event]
    kills: Sequence[Kill]
    left_over: int
    """Messages that the platform says it stores at the end and does not deliver."""

    @property
    def counts(self) -> Counter[Verdict]:
        """How many messages have which verdict."""
        return Counter(judged.verdict for judged in self.judged.values())

    @property
    def good(self) -> bool:
        """Nothing was lost, doubled or kept back."""
        return not any(self.counts[verdict] for verdict in FAULTY) and self.left_over == 0


def summary(run: Run) -> str:
    """One line for the terminal."""
    verdicts = ", ".join(f"{run.counts[verdict]} {verdict}" for verdict in Verdict)
    return f"{len(run.judged)} messages, {len(run.kills)} kills: {verdicts}; seed {run.seed}"


def page(run: Run) -> str:
    """The report: a table, a mark for each message, and the history of each fault."""
    rows = "".join(f"<tr><th>{name}<td>{value}" for name, value in _facts(run).items())
    legend = " ".join(
        f'<span style="color:{colour}">&#9632; {verdict}</span>'
        for verdict, colour in COLOURS.items()
    )
    data = json.dumps(_drawing(run), separators=(",", ":")).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>EnMasse: kill -9 under load</title>
<style>
body {{ font: 14px sans-serif; margin: 2em; color: #222 }}
table {{ border-collapse: collapse }} th {{ text-align: left; padding-right: 2em }}
canvas {{ width: 100%; border: 1px solid #ccc }} pre {{ background: #f5f5f5; padding: .5em }}
.good {{ color: {COLOURS[Verdict.OK]} }} .bad {{ color: {COLOURS[Verdict.LOST]} }}
</style>
<h1 class="{"good" if run.good else "bad"}">{"Nothing was lost" if run.good else "It failed"}</h1>
<table>{rows}</table>
<h2>What the words mean</h2>
<table>{_meanings()}</table>
<p>There are more deliveries than messages without a duplicate among them: a message that
its consumer had not settled when the platform was killed is delivered again (at least once).
<h2>By address</h2>
<table><tr><th>row<th>messages<th>deliveries<th>what it is{_by_lane(run)}</table>
<h2>In time</h2>
<p>Each mark is a message: across, when it was sent; within its row, upwards and logarithmic, how
long until it was last heard of (from 1 ms to {_longest_s(run):g} s).
Red lines are kills, grey the time without a platform. {legend}
<p><canvas id="drawing" width="1600" height="{_height(run)}"></canvas>
{_faults(run)}
<script>const run = {data};
{DRAW}</script>
</html>
"""


def _facts(run: Run) -> dict[str, str]:
    deliveries = sum(judged.deliveries for judged in run.judged.values())
    facts: dict[str, object] = {verdict: run.counts[verdict] for verdict in Verdict} | {
        "messages": len(run.judged),
        "deliveries": deliveries,
        "kills": len(run.kills),
        "stored and not delivered": run.left_over,
        "seconds": f"{run.seconds:g}",
        "seed": run.seed,
        "again": run.command,
    }
    return {str(name): html.escape(str(value)) for name, value in facts.items()}


def _meanings() -> str:
    return "".join(f"<tr><th>{verdict}<td>{said}" for verdict, said in MEANINGS.items())


def _by_lane(run: Run) -> str:
    """One line for each row of the picture: how many messages and deliveries, and of what."""
    messages: Counter[str] = Counter()
    deliveries: Counter[str] = Counter()
    for name, judged in run.judged.items():
        messages[_lane(name)] += 1
        deliveries[_lane(name)] += judged.deliveries
    return "".join(
        f"<tr><th>{html.escape(lane)}<td>{messages[lane]:,}<td>{deliveries[lane]:,}"
        f"<td>{ROWS.get(lane, '')}"
        for lane in _lanes(run)
    )


def _longest_s(run: Run) -> float:
    """The top of a row: the power of ten above the longest time of any message."""
    longest_s = max((one.ended_s - one.began_s for one in run.judged.values()), default=0.0)
    return float(10 ** max(math.ceil(math.log10(max(longest_s, 0.01))), -1))


def _lanes(run: Run) -> list[str]:
    return sorted({_lane(name) for name in run.judged})


def _lane(name: str) -> str:
    return name.partition("-")[0]


LANE_HEIGHT = 160


def _height(run: Run) -> int:
    return LANE_HEIGHT * max(1, len(_lanes(run))) + 30


def _drawing(run: Run) -> dict[str, object]:
    lanes = _lanes(run)
    places = {lane: number for number, lane in enumerate(lanes)}
    verdicts = list(Verdict)
    # What is wrong is drawn last, over the rest.
    drawn = sorted(run.judged.items(), key=lambda item: item[1].verdict in FAULTY)
    return {
        "lanes": lanes,
        "colours": [COLOURS[verdict] for verdict in verdicts],
        "kills": [[round(kill.at_s, 3), round(kill.up_s, 3)] for kill in run.kills],
        "end": max((judged.ended_s for judged in run.judged.values()), default=1.0),
        "marks": [
            [
                round(judged.began_s, 3),
                round(judged.ended_s, 3),
                places[_lane(name)],
                verdicts.index(judged.verdict),
            ]
            for name, judged in drawn
        ],
        "laneHeight": LANE_HEIGHT,
        "longest": _longest_s(run),
    }


def _faults(run: Run) -> str:
    faulty = [name for name, judged in run.judged.items() if judged.verdict in FAULTY]
    if not faulty:
        return ""
    lines: dict[str, list[str]] = {name: [] for name in faulty[:FAULTS_SHOWN]}
    for event in run.events:
        if event.message in lines:
            link = f" by connection {event.link}" if event.link else ""
            lines[event.message].append(f"{event.at_s:10.3f} s {event.what}{link}")
    parts = [f"<h2>{len(faulty)} faults, the first {len(lines)} of them</h2>"]
    for name, history in lines.items():
        judged = run.judged[name]
        title = html.escape(f"{name}: {judged.verdict}: {judged.why}")
        parts.append(f"<h3>{title}</h3><pre>{html.escape(chr(10).join(history))}</pre>")
    return "\n".join(parts)


DRAW = """
const canvas = document.getElementById("drawing"), pen = canvas.getContext("2d");
const left = 90, width = canvas.width - left - 10, bottom = canvas.height - 30;
const across = seconds => left + width * seconds / Math.max(run.end, 1e-9);
pen.font = "14px sans-serif";
for (const [at, up] of run.kills) {
  pen.fillStyle = "#eee"; pen.fillRect(across(at), 0, across(up) - across(at), bottom);
  pen.fillStyle = "#d62728"; pen.fillRect(across(at), 0, 1, bottom);
}
pen.fillStyle = "#222";
run.lanes.forEach((name, lane) => {
  pen.fillText(name, 4, lane * run.laneHeight + run.laneHeight / 2);
  pen.fillRect(0, (lane + 1) * run.laneHeight, canvas.width, 0.5);
});
const step = Math.max(1, Math.ceil(run.end / 15));
for (let at = 0; at <= run.end; at += step) pen.fillText(at + " s", across(at), canvas.height - 8);
for (const [began, ended, lane, verdict] of run.marks) {
  const decades = Math.log10(run.longest) + 3;
  const up = Math.min(1, Math.max(0, (Math.log10(Math.max(ended - began, 1e-3)) + 3) / decades));
  pen.fillStyle = run.colours[verdict];
  const size = verdict === 0 ? 2 : 5;
  const floor = (lane + 1) * run.laneHeight - 6;
  pen.fillRect(across(began), floor - up * (run.laneHeight - 12), size, size);
}
"""
