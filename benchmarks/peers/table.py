"""The tables of docs/performance.md: medians and spreads of rounds, ratios within each round. Pure.

A table shows where Headrace is slower as clearly as where it is faster.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from peers.jobs import Job
from peers.phase import Measured

OWN = "Headrace"


class MissingMarkersError(Exception):
    """A page has no place for a table."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One rate. unit: of thousands of it."""

    title: str
    unit: str
    rate: Callable[[Measured], float]


MEASURES = (
    Measure("steady, by CPU", "k rows/CPU-s", lambda measured: measured.steady_rows_per_cpu_s),
    Measure("steady, by the clock", "k rows/s", lambda measured: measured.steady_rows_per_s),
    Measure("fresh start, by CPU", "k rows/CPU-s", lambda measured: measured.fresh_rows_per_cpu_s),
)

Rounds = Mapping[str, Sequence[Measured]]
"""Contender -> its rounds, in order; every contender took part in every round."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a table. contenders: versions, one line each."""

    date: str
    commit: str
    machine: str
    contenders: Sequence[str]


def ratios(rounds: Rounds, other: str, rate: Callable[[Measured], float]) -> list[float]:
    """Returns Headrace's rate by that of another contender, within each round."""
    return [rate(own) / rate(beside) for own, beside in zip(rounds[OWN], rounds[other], strict=True)]


def section(job: Job, rounds: Rounds, conditions: Conditions) -> str:
    """Returns the Markdown of one job's table, with its conditions."""
    count = len(rounds[OWN])
    lines = [
        f"### {job.name}: {job.title}",
        "",
        f"{conditions.date}, commit {conditions.commit}, {count} {'round' if count == 1 else 'rounds'}, "
        f"{job.rows:,} rows (slope from {job.small_rows:,}). {conditions.machine}. {'; '.join(conditions.contenders)}.",
        "",
        "| | " + " | ".join(f"{measure.title}, {measure.unit} | Headrace is" for measure in MEASURES) + " |",
        "|---|" + "---:|---:|" * len(MEASURES),
        *(_row(name, rounds) for name in rounds),
        "",
        _verdict(rounds),
    ]
    return "\n".join(lines)


def _row(name: str, rounds: Rounds) -> str:
    cells: list[str] = []
    for measure in MEASURES:
        rates = [measure.rate(measured) / 1_000 for measured in rounds[name]]
        cells.append(_spread(rates, digits=0))
        cells.append("" if name == OWN else _spread(ratios(rounds, name, measure.rate), digits=2) + "x")
    return f"| {name} | " + " | ".join(cells) + " |"


def _spread(values: Sequence[float], *, digits: int) -> str:
    """Returns the median, with the lowest and the highest of several values."""
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"


def _verdict(rounds: Rounds) -> str:
    """Lists, by contender, the rates in which Headrace is slower in the median, and those in which rounds disagree."""
    behind = {name: _measures(rounds, name, _loses) for name in rounds if name != OWN}
    unsure = {name: _measures(rounds, name, _disagrees) for name in rounds if name != OWN}
    sentences = [f"Headrace is behind {name}: {', '.join(lost)}." for name, lost in behind.items() if lost]
    sentences = sentences or ["Headrace is behind in no measure."]
    sentences += [f"No clear winner beside {name}: {', '.join(level)}." for name, level in unsure.items() if level]
    return " ".join(sentences)


def _measures(rounds: Rounds, name: str, holds: Callable[[Sequence[float]], bool]) -> list[str]:
    found = ((measure, ratios(rounds, name, measure.rate)) for measure in MEASURES)
    return [f"{measure.title} ({statistics.median(values):.2f}x)" for measure, values in found if holds(values)]


def _disagrees(values: Sequence[float]) -> bool:
    return min(values) < 1 < max(values)


def _loses(values: Sequence[float]) -> bool:
    return statistics.median(values) < 1 and not _disagrees(values)


def replaced(page: str, job: Job, text: str) -> str:
    """Returns the page with `text` between the markers of a job. Raises MissingMarkersError."""
    begin, end = f"<!-- peers {job.name} -->\n", f"<!-- end of peers {job.name} -->"
    before, begins, rest = page.partition(begin)
    _, ends, after = rest.partition(end)
    if not begins or not ends:
        raise MissingMarkersError(f"the page needs the lines {begin.strip()!r} and {end!r}, in this order")
    return f"{before}{begin}{text}\n{end}{after}"
