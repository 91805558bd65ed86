"""The flow of the demonstration: broker, flights, pipeline, once more at full speed, check.

It owns the order of the steps, and guarantees that nothing is left behind, however it ends. It prints nothing: a
`Watcher` receives the progress.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Protocol

import polars as pl

from headrace.local.engine.collect_sink import Collection, CollectSink
from headrace.local.engine.compile import Compiled, compile_loaded
from headrace.local.engine.job import JobOptions, LocalJob, Progress
from headrace.local.pipeline_file import Loaded
from headrace.local.topics.topics import create_topic
from headrace.plan.physical import SinkSpec
from headrace.spec.pipeline import SinkNode
from headrace.spec.reading.load import load_text
from headrace_dev.broker import BrokerConfig, EmbeddedBroker, FetchProgress
from headrace_dev.demo.feed import FlightFeed
from headrace_dev.demo.flights import AIRPORTS, COLUMNS, FlightLog, load_flights
from headrace_dev.demo.results import LiveResults, LiveView, read_topic

PIPELINE = "flights.yaml"
TOPIC, DELAYS, LATE = "flights", "delays", "flights-late"

_TAP = "screen"
_VIEW_SECONDS = 0.25


class Stage(StrEnum):
    """The next step of the demonstration."""

    READ = "read the flights"
    BROKER = "start the broker"
    LIVE = "run the pipeline while the flights come in"
    AGAIN = "run it again over the whole topic"
    CHECK = "compare with a batch query"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`port` 0: a free one. `rows` None: all. `seconds`: duration of the replayed year; 0: no pace."""

    port: int = 0
    rows: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """A run over a topic that is already full. CPU is that of this process, all threads."""

    rows: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The result. `live` and `again` are the checks of the two runs' topics."""

    flights: int
    cancelled: int
    progress: Progress
    live: Check
    again: Check
    throughput: Throughput

    @property
    def differences(self) -> tuple[str, ...]:
        """All differences from the batch query; empty if all is right."""
        return tuple(
            f"{run}: {text}"
            for run, check in (("live", self.live), ("again", self.again))
            for text in check.differences
        )


class Watcher(Protocol):
    """Receives the progress."""

    def began(self, stage: Stage) -> None:
        """A stage begins; the one before it is done."""
        ...

    def fetching(self, progress: FetchProgress) -> None:
        """The broker's jars are being downloaded: only the first time."""
        ...

    def moved(self, view: LiveView) -> None:
        """The pipeline runs; called a few times a second, and once at the end."""
        ...


def run_demo(options: DemoOptions, watcher: Watcher) -> DemoReport:
    """Runs the demonstration. Raises the error of any part, including KeyboardInterrupt, after everything is
    removed.
    """
    watcher.began(Stage.READ)
    log = load_flights(options.rows)
    watcher.began(Stage.BROKER)
    with _broker(options.port, watcher) as brokers:
        create_topic(brokers, TOPIC, partitions=len(AIRPORTS))
        watcher.began(Stage.LIVE)
        progress = _run_live(brokers, log, options.seconds, watcher)
        watcher.began(Stage.AGAIN)
        throughput = _run_again(brokers, log)
        watcher.began(Stage.CHECK)
        live, again = _check(brokers, log)
    cancelled = log.rows.get_column("dep_delay").null_count()
    return DemoReport(log.rows.height, cancelled, progress, live, again, throughput)


@contextmanager
def _broker(port: int, watcher: Watcher) -> Iterator[str]:
    """A broker with a temporary data folder. It is killed, because its last writes are discarded anyway."""
    # named before it is created: wherever an interrupt falls, the folder to delete is known
    folder = Path(tempfile.gettempdir(), f"headrace-demo-{uuid.uuid4().hex[:12]}")
    broker = EmbeddedBroker(BrokerConfig(folder / "kafka", port=port), on_progress=watcher.fetching)
    try:
        folder.mkdir(mode=0o700)
        broker.start()
        yield broker.bootstrap
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _compiled(brokers: str, log: FlightLog, suffix: str = "", tap: Collection | None = None) -> Compiled:
    """Returns the pipeline on this broker, bounded by the number of flights; `suffix` distinguishes its result
    topics.
    """
    text = files(__package__).joinpath(PIPELINE).read_text(encoding="utf-8")
    stop = json.dumps({str(partition): end for partition, end in log.ends.items()})
    settings = [
        f"sources.flights.kafka.stop={stop}",
        f"sinks.delays.kafka.topic={DELAYS}{suffix}",
        f"sinks.flights_late.kafka.topic={LATE}{suffix}",
    ]
    loaded = load_text(text, PIPELINE, set_=settings, environ={**os.environ, "KAFKA_BROKERS": brokers})
    pipeline = loaded.pipeline
    if tap is not None:
        screen = SinkNode(from_="hourly", connector="collect", config=CollectSink(collection=tap))
        pipeline = pipeline.model_copy(update={"sinks": {**pipeline.sinks, _TAP: screen}})
    return compile_loaded(Loaded(pipeline, loaded))


def _run_live(brokers: str, log: FlightLog, seconds: float, watcher: Watcher) -> Progress:
    collection = Collection()
    compiled = _compiled(brokers, log, tap=collection)
    tap = compiled.logical.node(_TAP).spec
    assert isinstance(tap, SinkSpec)
    results = LiveResults(collection, tap.schema)
    job = LocalJob(compiled.physical, JobOptions(job="demo"))
    feed = FlightFeed(brokers, TOPIC, log, seconds=seconds)
    started = time.monotonic()
    due = 0.0

    def show(progress: Progress, *, now: bool = False) -> None:
        nonlocal due
        if feed.failure is not None:
            raise feed.failure
        elapsed = time.monotonic() - started
        if now or elapsed >= due:
            due = elapsed + _VIEW_SECONDS
            watcher.moved(results.view(feed.sent, log.rows.height, elapsed, _untapped(progress, collection)))

    try:
        feed.start()
        job.run(show)
        feed.wait()
    finally:
        feed.stop()
    show(job.progress(), now=True)
    return _untapped(job.progress(), collection)


def _untapped(progress: Progress, collection: Collection) -> Progress:
    """Returns the progress without the rows that went to the screen."""
    rows = collection.rows
    return replace(progress, rows_out=progress.rows_out - rows, attempt_out=progress.attempt_out - rows)


def _run_again(brokers: str, log: FlightLog) -> Throughput:
    job = LocalJob(_compiled(brokers, log, suffix="-again").physical, JobOptions(job="demo-again"))
    started, cpu = time.monotonic(), time.process_time()
    job.run()
    return Throughput(job.progress().rows_in, time.monotonic() - started, time.process_time() - cpu)


def _check(brokers: str, log: FlightLog) -> tuple[Check, Check]:
    time_of = _compiled(brokers, log).pipeline.sources["flights"].time
    expected = expected_results(log.rows, time_of.out_of_orderness_ms)
    live, again = (
        compare(
            expected,
            read_topic(brokers, f"{DELAYS}{suffix}", WINDOW_COLUMNS),
            read_topic(brokers, f"{LATE}{suffix}", COLUMNS),
        )
        for suffix in ("", "-again")
    )
    return live, again


WINDOW = pl.duration(hours=1)
WINDOW_COLUMNS = ("origin", "carrier", "window_start", "window_end", "flights", "mean_delay", "worst")

_SHOWN = 3
_COPIES = "copies"


@dataclass(frozen=True, slots=True)
class Expected:
    """Every row of the results: windows, and the flights that were late for theirs. A polars batch query computes them.

    Independent of the engine on purpose: the query shares no code with the windows that it checks.
    """

    windows: pl.DataFrame
    late: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Check:
    """The result of the comparison. `differences` is empty if every row is right."""

    windows: int
    counted: int
    late: int
    differences: tuple[str, ...]


def expected_results(flights: pl.DataFrame, out_of_orderness_ms: int) -> Expected:
    """Returns the results of the batch query. `flights` in log order, with `partition`.

    A flight is late if its own partition's watermark, just after the flight, has reached the last millisecond of its
    hour. Cancelled flights advance the watermark, too, because they are filtered only behind the source. Delays are
    whole minutes, so that their sum is exact and the mean has one correct value.
    """
    watermark = pl.col("scheduled").cum_max().over("partition") - pl.duration(milliseconds=out_of_orderness_ms + 1)
    departed = (
        flights.with_columns(watermark=watermark, window_start=pl.col("scheduled").dt.truncate("1h"))
        .with_columns(window_end=pl.col("window_start") + WINDOW, dep_delay=pl.col("dep_delay").cast(pl.Float64))
        .filter(pl.col("dep_delay").is_not_null())
        .with_columns(late=pl.col("window_end") - pl.duration(milliseconds=1) <= pl.col("watermark"))
    )
    delay = pl.col("dep_delay")
    windows = (
        departed.filter(~pl.col("late"))
        .group_by("origin", "carrier", "window_start", "window_end")
        .agg(flights=pl.len().cast(pl.Int64), mean_delay=delay.sum() / pl.len(), worst=delay.max())
    )
    return Expected(windows.select(WINDOW_COLUMNS), departed.filter("late").select(COLUMNS))


def compare(expected: Expected, windows: pl.DataFrame, late: pl.DataFrame) -> Check:
    """Compares row by row: each (origin, carrier, window) with count, mean and worst, and each late flight."""
    return Check(
        windows=windows.height,
        counted=int(windows.get_column("flights").sum()),
        late=late.height,
        differences=(
            *_differences("window", expected.windows, windows, WINDOW_COLUMNS),
            *_differences("late flight", expected.late, late, COLUMNS),
        ),
    )


def _differences(what: str, expected: pl.DataFrame, actual: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """Compares both as multisets."""
    wanted, made = (side.group_by(columns).agg(pl.len().alias(_COPIES)) for side in (expected, actual))
    differences: list[str] = []
    for verdict, these, those in (("missing", wanted, made), ("not expected", made, wanted)):
        rows = these.join(those, on=[*columns, _COPIES], how="anti", nulls_equal=True).sort(columns)
        if rows.height:
            examples = "; ".join(_row_text(row) for row in rows.head(_SHOWN).iter_rows(named=True))
            differences.append(f"{rows.height:,} {what} rows {verdict}, such as {examples}")
    return differences


def _row_text(row: dict[str, object]) -> str:
    copies = row.pop(_COPIES)
    text = ", ".join(f"{name} {value}" for name, value in row.items())
    return text if copies == 1 else f"{text} ({copies} times)"
