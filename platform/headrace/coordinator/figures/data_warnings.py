"""Warnings about data that looks wrong, from the reports of a job's slots. Pure; no decision about the job reads them.

Each warning is raised once in an attempt. It stays until the attempt ends, except those of time that is held back or
stands still, which are withdrawn when it moves, of state over its budget, and of state that grows, which are withdrawn
when it stops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from headrace.checkpoint.manifest import Manifest
from headrace.coordinator.figures.job_figures import NO_STATE, JobFigures, stored_states
from headrace.coordinator.figures.quiet_partitions import QuietPartition, quiet_partitions
from headrace.coordinator.figures.slot_series import StateKey
from headrace.coordinator.figures.standing_time import StandingTime, Waiting
from headrace.coordinator.figures.state_growth import StateGrowth
from headrace.coordinator.figures.watched_plan import WatchedPlan, WatchedSource
from headrace.core.config import duration_text
from headrace.core.late_buckets import merged, quantile_ms
from headrace.core.text.plural import bytes_text
from headrace.core.text.span_text import moment_text, span_text
from headrace.core.types import UNIT_WORDS, TimestampUnit
from headrace.rpc.figures import FIRST_ROWS_MAX, FirstRows, StateFigures
from headrace.rpc.status import SlotStatus

FIRST_MS = 60_000
"""The first rows are judged after this time, if they are fewer than `FIRST_ROWS_MAX`; earlier if the input ends."""
ROWS_MIN = 20
"""Fewer rows than these are not judged."""
TIMES_MS = 5_000
"""Event times are judged after this time."""
FUTURE_MS = 10 * 60_000
"""A partition whose event time is so far ahead of the clock is in the future."""
LATE_SHARE = 0.01
"""A share of late rows that is worth a warning."""
LATE_ROWS_MIN = 100
"""Fewer late rows than these are not."""
COLUMNS_SHOWN = 8
"""Most columns that one warning names."""
WARNINGS_MAX = 64
"""Most warnings of a job at a time."""
STATE_BYTES_MIN = 16_000_000
"""A smaller state is not worth a warning, however it grows."""
GROWTH_BYTES_MIN = 4_000_000
"""A state that grows by less in an hour is not: this is 100 MB a day."""
_ROUND_MS = (1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000)
_HOUR_MS = 3_600_000

Kind = Literal[
    "input",
    "null-column",
    "times-in-1970",
    "times-in-future",
    "late-rows",
    "quiet-partition",
    "standing-time",
    "state-over-budget",
    "filter-passes-nothing",
    "growing-state",
]
_WITHDRAWN: frozenset[Kind] = frozenset({"quiet-partition", "standing-time", "state-over-budget", "growing-state"})
_RENEWED: frozenset[Kind] = frozenset({"standing-time", "growing-state"})
"""Their texts change while they stand."""


@dataclass(frozen=True, slots=True)
class DataWarning:
    """One warning. subject: what of the node it is about, so that it is raised once; since_ms: epoch ms."""

    node: str
    kind: Kind
    text: str
    since_ms: int
    subject: str = ""


class DataWarnings:
    """The warnings of one attempt."""

    def __init__(self) -> None:
        self._raised: dict[tuple[str, Kind, str], DataWarning] = {}
        self._told: set[tuple[str, Kind, str]] = set()
        self._standing = StandingTime()
        self.growth = StateGrowth()
        """How fast the states grow, as of the last call of `judge`."""
        self.waiting: tuple[Waiting, ...] = ()
        """The steps whose time stands still, as of the last call of `judge`."""

    @property
    def current(self) -> tuple[DataWarning, ...]:
        """The warnings, the oldest first."""
        return tuple(sorted(self._raised.values(), key=lambda each: (each.since_ms, each.node, each.kind)))

    def judge(
        self,
        plan: WatchedPlan,
        figures: JobFigures,
        statuses: Iterable[SlotStatus],
        now_ms: int,
        manifest: Manifest | None = None,
    ) -> tuple[DataWarning, ...]:
        """Judges the newest reports; returns the warnings that were raised now.

        now_ms: epoch ms; manifest: of the newest complete checkpoint."""
        reports = list(statuses)
        self.waiting = self._standing.look(plan, figures, reports, now_ms)
        self.growth.look(figures)
        look = _Look(plan, figures, reports, now_ms, self.waiting, self.growth, manifest)
        found = {(each.node, each.kind, each.subject): each for each in _findings(look)}
        for key in [key for key in self._raised if key[1] in _WITHDRAWN and key not in found]:
            del self._raised[key]
        for key, each in found.items():
            if key in self._raised and each.kind in _RENEWED:
                self._raised[key] = replace(each, since_ms=min(each.since_ms, self._raised[key].since_ms))
            elif key not in self._raised and len(self._raised) < WARNINGS_MAX:
                self._raised[key] = each
        fresh = [key for key in found if key in self._raised and key not in self._told]
        self._told.update(fresh)
        return tuple(self._raised[key] for key in fresh)


@dataclass(frozen=True, slots=True)
class _Look:
    plan: WatchedPlan
    figures: JobFigures
    statuses: list[SlotStatus]
    now_ms: int
    waiting: tuple[Waiting, ...]
    growth: StateGrowth
    manifest: Manifest | None

    @property
    def running_ms(self) -> int:
        return self.figures.running_ms

    def total(self, node: str, counter: str) -> int:
        """A counter of a node in this attempt, over all subtasks."""
        return sum(own.get(node, {}).get(counter, 0) for own in self.figures.counters())

    def ended(self) -> bool:
        """Whether all input has ended."""
        subtasks = [each for status in self.statuses for each in status.subtasks]
        return bool(subtasks) and all(each.ended for each in subtasks)

    def first_rows(self, source: str) -> list[FirstRows]:
        """What the first rows of each subtask of the source look like, of those that have had any."""
        reports = [each.first for each in self.figures.sources(source).values()]
        return [each for each in reports if each is not None and each.rows]

    def settled(self, rows: int, after_ms: int = FIRST_MS) -> bool:
        """Whether enough rows were seen: the first ones, those of the first minute, or all."""
        return rows >= ROWS_MIN and (rows >= FIRST_ROWS_MAX or self.running_ms >= after_ms or self.ended())


def _findings(look: _Look) -> Iterator[DataWarning]:
    held: set[str] = set()
    for source in look.plan.sources:
        yield from _remarks(look, source)
        yield from _null_columns(look, source)
        if source.timed:
            yield from _times_in_1970(look, source)
            yield from _times_in_future(look, source)
            for quiet in _quiet(look, source):
                held.add(source.name)
                yield quiet
    # a source with a quiet partition has a warning of its own
    yield from (_standing(each) for each in look.waiting if each.source not in held)
    for node, sources in (look.plan.windows or {}).items():
        yield from _late_rows(look, node, sources)
    for node in look.plan.filters:
        yield from _filter(look, node)
    states = look.figures.states() if look.plan.growing else {}
    yield from _over_budget(look)
    for key in look.plan.growing:
        yield from _growing(look, key, states.get(key, NO_STATE))


def _remarks(look: _Look, source: WatchedSource) -> Iterator[DataWarning]:
    """What the source's reader has to say of its input."""
    for subtask in look.figures.sources(source.name).values():
        for remark in subtask.first.remarks if subtask.first is not None else ():
            yield DataWarning(source.name, "input", f"source {source.name}: {remark}", look.now_ms, remark)


def _null_columns(look: _Look, source: WatchedSource) -> Iterator[DataWarning]:
    first = look.first_rows(source.name)
    rows = sum(each.rows for each in first)
    if not look.settled(rows):
        return
    columns = [name for name in first[0].all_null if all(name in each.all_null for each in first)]
    if not columns:
        return
    shown = ", ".join(columns[:COLUMNS_SHOWN]) + (", .." if len(columns) > COLUMNS_SHOWN else "")
    many = len(columns) > 1
    text = (
        f"source {source.name}: {'columns' if many else 'column'} {shown} {'are' if many else 'is'} NULL in all of the "
        f"first {rows:,} rows; check the {'names' if many else 'name'} against the messages (`headrace infer`)"
    )
    yield DataWarning(source.name, "null-column", text, look.now_ms)


def _times_in_1970(look: _Look, source: WatchedSource) -> Iterator[DataWarning]:
    first = look.first_rows(source.name)
    rows, early = sum(each.rows for each in first), sum(each.in_1970 for each in first)
    greatest = max((each.greatest_1970 for each in first if each.greatest_1970 is not None), default=None)
    if not early or greatest is None or not look.settled(rows, TIMES_MS):
        return
    column = source.time_column
    meant = _unit_of_1970(source.unit, greatest)
    if column is None:
        remedy = "check `time:` of the source"
    elif meant is None:
        remedy = f"check the values of {column}"
    else:
        remedy = f"integers are read as {UNIT_WORDS[source.unit]}; {_declared(column, meant)}"
    text = (
        f"source {source.name}: the event time of {early:,} of the first {rows:,} rows is in 1970 "
        f"(up to {moment_text(greatest)}); {remedy}"
    )
    yield DataWarning(source.name, "times-in-1970", text, look.now_ms)


def _unit_of_1970(unit: TimestampUnit, greatest_ms: int) -> TimestampUnit | None:
    """The unit in which the integers behind times in 1970 give times near now; None: none does."""
    value = greatest_ms * {"s": 0.001, "ms": 1, "us": 1_000}[unit]
    if unit != "s" and _is_near_now(value):
        return "s"
    if unit == "us" and _is_near_now(value / 1_000):
        return "ms"
    return None


def _is_near_now(seconds: float) -> bool:
    """Whether so many seconds since 1970 are in the last or the next decades."""
    return 3e8 <= seconds < 3e10


def _times_in_future(look: _Look, source: WatchedSource) -> Iterator[DataWarning]:
    ahead = [
        (each.watermark + source.out_of_orderness_ms + 1, each.topic, each.partition)
        for subtask in look.figures.sources(source.name).values()
        for each in subtask.partitions
        if each.watermark is not None
    ]
    if not ahead or not (look.running_ms >= TIMES_MS or look.ended()):
        return
    greatest, topic, partition = max(ahead)
    if greatest <= look.now_ms + FUTURE_MS:
        return
    # the same integers in the finer unit: near now, or they are just far away (9999-12-31)
    meant = _FINER.get(source.unit) if _is_near_now(greatest / 1e6) else None
    column = source.time_column
    if meant is not None and column is not None:
        remedy = _declared(column, meant)
    else:
        remedy = f"check the zone and the unit of {column or 'its times'}"
    text = (
        f"source {source.name}: partition {partition} of {topic} has event times in the future (up to "
        f"{moment_text(greatest)}), and rows before them count as late; {remedy}"
    )
    yield DataWarning(source.name, "times-in-future", text, look.now_ms)


_FINER: Mapping[TimestampUnit, TimestampUnit] = {"s": "ms", "ms": "us"}
_TYPES: Mapping[TimestampUnit, str] = {"s": "timestamp(s)", "ms": "timestamp", "us": "timestamp(us)"}


def _declared(column: str, unit: TimestampUnit) -> str:
    return f"if they are {UNIT_WORDS[unit]}, declare `{column}: {_TYPES[unit]}`"


def _quiet(look: _Look, source: WatchedSource) -> Iterator[DataWarning]:
    partitions = [each for subtask in look.figures.sources(source.name).values() for each in subtask.partitions]
    for each in quiet_partitions(partitions):
        since_ms = look.now_ms - each.quiet_ms
        # a partition that is about to count as idle holds nothing back for long
        if source.idle_after_ms is None or each.quiet_ms > 2 * source.idle_after_ms:
            text = _quiet_text(source, each, since_ms)
            yield DataWarning(source.name, "quiet-partition", text, since_ms, f"{each.topic}-{each.partition}")


def _quiet_text(source: WatchedSource, quiet: QuietPartition, since_ms: int) -> str:
    behind = "never had one" if quiet.behind_ms is None else f"is {span_text(quiet.behind_ms)} behind the others"
    remedy = (
        "set `idle_after: 30s` in its `time:`" if source.idle_after_ms is None else "check why it does not become idle"
    )
    return (
        f"source {source.name}: partition {quiet.partition} of {quiet.topic} holds time back since "
        f"{moment_text(since_ms)}: no row has come from it since, and it {behind}; {remedy}"
    )


def _standing(waiting: Waiting) -> DataWarning:
    text = (
        f"{waiting.node}: event time stands still since {moment_text(waiting.since_ms)}, and the window that ends at "
        f"{moment_text(waiting.next_end)} waits for {waiting.on}; {waiting.remedy}"
    )
    return DataWarning(waiting.node, "standing-time", text, waiting.since_ms)


def _over_budget(look: _Look) -> Iterator[DataWarning]:
    """Told of the step that holds most, whatever its state: caches, recent rows and small pieces cannot move."""
    held = look.figures.state()
    memory: Counter[str] = Counter()
    for (node, _), each in look.figures.states().items():
        memory[node] += each.memory_bytes
    if not held.pressed or not memory:
        return
    ((node, most),) = memory.most_common(1)
    remedy = "raise state.memory, or use a higher parallelism"
    if node in (look.plan.windows or {}):
        remedy = "raise state.memory, use a higher parallelism, or see what holds time back"
    text = (
        f"{node}: the job's slots hold {held.memory_bytes:,} bytes of state in memory, {most:,} of them here, more than"
        " state.memory allows although what can has moved to local files: partitions of sources pause, but for those"
        f" that time waits for; {remedy}"
    )
    yield DataWarning(node, "state-over-budget", text, look.now_ms)


def _late_rows(look: _Look, node: str, sources: Iterable[str]) -> Iterator[DataWarning]:
    late, rows = look.total(node, "late"), look.total(node, "rows_in")
    if late < LATE_ROWS_MIN or late < LATE_SHARE * rows or not look.settled(rows, TIMES_MS):
        return
    buckets = merged(each.buckets for each in look.figures.late(node))
    half, most = quantile_ms(buckets, 0.5), quantile_ms(buckets, 0.99)
    if half is None or most is None:
        how, remedy = "", "raise `out_of_orderness` of its source, or `allowed_lateness`"
    else:
        how = f": half of them by more than {span_text(half)}, 1 % by more than {span_text(most)}"
        remedy = _later(look, sources, most)
    text = f"{node}: {late:,} of {rows:,} rows ({late / rows:.0%}) came after their window was closed{how}; {remedy}"
    yield DataWarning(node, "late-rows", text, look.now_ms)


def _later(look: _Look, sources: Iterable[str], most_ms: int) -> str:
    known = {each.name: each for each in look.plan.sources}
    wanted = [f"{name}: `out_of_orderness: {_rounded(known[name].out_of_orderness_ms + most_ms)}`" for name in sources]
    return f"to have nearly all of them in time, set for source {', '.join(wanted)}; windows that are closed stay so"


def _rounded(ms: int) -> str:
    """The next round duration as a setting."""
    size = next((each for each in _ROUND_MS if each >= ms), None)
    return duration_text(-(-ms // _HOUR_MS) * _HOUR_MS if size is None else size)


def _filter(look: _Look, node: str) -> Iterator[DataWarning]:
    rows = look.total(node, "rows_in")
    if look.settled(rows) and not look.total(node, "rows_out"):
        text = f"filter {node} has let none of its first {rows:,} rows pass; check its predicate (`headrace preview`)"
        yield DataWarning(node, "filter-passes-nothing", text, look.now_ms)


def _growing(look: _Look, key: StateKey, held: StateFigures) -> Iterator[DataWarning]:
    """A state that nothing drops, and that keeps growing."""
    node, state = key
    size, growth = held.memory_bytes + held.disk_bytes, look.growth.per_hour(key)
    if size < STATE_BYTES_MIN or growth is None or growth < GROWTH_BYTES_MIN or not look.growth.lasts(key):
        return
    stored = stored_states(look.manifest).get(key)
    rows = "" if stored is None else f"{stored.rows:,} rows, "
    room = "give it disk and storage" if look.plan.on_disk else "give it room (`state: {backend: disk}`)"
    text = (
        f"{node}: nothing drops its state {state}, and it keeps growing: {rows}{bytes_text(size)}, by "
        f"{bytes_text(growth)} an hour; aggregate over a window, leave out keys that are not needed, or {room}"
    )
    yield DataWarning(node, "growing-state", text, look.now_ms, state)
