"""The history as a picture: one HTML file that needs nothing else."""

import html
import json
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
<p>Each mark is a message: across, when it was sent; within its address, upwards, how long until
it was last heard of (from 1 ms to 100 s).
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
  const up = Math.min(1, Math.max(0, (Math.log10(Math.max(ended - began, 1e-3)) + 3) / 5));
  pen.fillStyle = run.colours[verdict];
  const size = verdict === 0 ? 2 : 5;
  const floor = (lane + 1) * run.laneHeight - 6;
  pen.fillRect(across(began), floor - up * (run.laneHeight - 12), size, size);
}
"""
