"""Runs all jobs with all contenders on one broker and writes the tables: `make bench-peers`.

usage: python -m peers.run [--rounds N] [--only JOB ..] [--without flink ..] [--scale X] [--page FILE | --no-page]

In each round the contenders run one after another, another one first each time. All results of every run are compared
with the right ones; a wrong result, or a run that fails, ends the benchmark. The table of a job is written as soon as
its rounds are over.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from measuring.flink_build import FlinkBuild, built, find_tools

from headrace.core.errors import HeadraceError
from headrace.local.topics.topics import delete_topic
from headrace_dev.broker import BrokerConfig, EmbeddedBroker
from peers import events, wide_rows
from peers.check import parsed, require_equal
from peers.conditions import ROOT, conditions
from peers.contenders.bare_contender import BARE_LOOPS
from peers.contenders.contender import Bout, Contender
from peers.contenders.flink_contender import Flink
from peers.contenders.headrace_contender import Headrace
from peers.expected import RESULTS, expected, input_rows
from peers.jobs import JOBS, Job, Name, Work, sized
from peers.phase import Measured
from peers.table import replaced, section
from peers.topics import create, fill, read_committed

PAGE = ROOT / "docs/performance.md"
FLINK = ROOT / "benchmarks/peers/flink"
ROUNDS, BROKER_HEAP_MB, WARM_UP_SCALE = 5, 1_024, 0.02
OPTIONAL = ("flink", "bare")


@dataclass(frozen=True, slots=True)
class Arena:
    """One job's input on a running broker. results: the right ones, by rows of input."""

    job: Job
    brokers: str
    folder: Path
    results: Mapping[int, pl.DataFrame]

    def bout(self, contender: Contender, number: int) -> Measured:
        """Runs a contender in topics of its own, which are deleted once checked. Raises FailedRunError,
        WrongOutputError, NoSlopeError."""
        name = f"{self.job.name}-{number}-{contender.name}".lower().replace(" ", "-").replace(",", "")
        small, large, scratch = (create(self.brokers, f"{name}-{part}") for part in ("small", "large", "scratch"))
        bout = Bout(
            job=self.job,
            brokers=self.brokers,
            source=self.job.topic,
            small_output=small,
            large_output=large,
            scratch_output=scratch,
            folder=self.folder / name,
        )
        measured = contender.run(bout)
        self._check(small, self.job.small_rows)
        self._check(large, self.job.rows)
        for topic in (small, large, scratch):
            delete_topic(self.brokers, topic)
        return measured

    def _check(self, topic: str, rows: int) -> None:
        schema = RESULTS[self.job.work]
        found = parsed(read_committed(self.brokers, topic), schema)
        sums = ("s",) if self.job.work is Work.WINDOW else ()
        require_equal(found, self.results[rows], sums=sums)


def main() -> int:
    options = _options()
    # unwinds, so that contenders and the broker end too
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        flink = None if "flink" in options.without else built(find_tools(), FLINK)
    except HeadraceError as missing:
        print(f"{missing}", file=sys.stderr)
        return 1
    contenders: list[Contender] = [Headrace()]
    if flink is not None:
        contenders.append(Flink(flink))
    if "bare" not in options.without:
        contenders += BARE_LOOPS
    with (
        tempfile.TemporaryDirectory(prefix="peers-") as folder,
        EmbeddedBroker(BrokerConfig(Path(folder, "kafka"), heap_mb=BROKER_HEAP_MB)) as broker,
    ):
        _warm_up(broker.bootstrap, Path(folder, "warm-up"), contenders)
        for name in options.only or Name:
            job = sized(JOBS[name], options.scale)
            text = _table(job, broker.bootstrap, Path(folder), contenders, rounds=options.rounds, flink=flink)
            print(text, flush=True)
            if options.page is not None:
                options.page.write_text(replaced(options.page.read_text(), job, text))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", action="append", type=Name, choices=list(Name))
    parser.add_argument("--without", action="append", choices=OPTIONAL, default=[])
    parser.add_argument("--scale", type=float, default=1.0, help="times the rows of every job")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page whose tables are replaced")
    parser.add_argument("--no-page", dest="page", action="store_const", const=None, help="print the tables only")
    return parser.parse_args()


def _warm_up(brokers: str, folder: Path, contenders: Sequence[Contender]) -> None:
    """Runs few rows once: the broker's first transactions are slow, and Python compiles modules on their first use."""
    arena = _arena(sized(JOBS[Name.P], WARM_UP_SCALE), brokers, folder)
    for contender in contenders:
        arena.bout(contender, 0)


def _table(
    job: Job, brokers: str, folder: Path, contenders: Sequence[Contender], *, rounds: int, flink: FlinkBuild | None
) -> str:
    met = conditions(flink)
    if job.state_mb is not None:
        # the bare loops know no files
        named = [contender for contender in contenders if contender not in BARE_LOOPS]
        contenders = [*named, Headrace(name="Headrace, state in memory", in_memory=True)]
    arena = _arena(job, brokers, folder)
    measured: dict[str, list[Measured]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            measured[contender.name].append(found := arena.bout(contender, number))
            print(f"{job.name} {number + 1}/{rounds} {contender.name}: {_line(found)}", file=sys.stderr, flush=True)
    delete_topic(brokers, job.topic)
    return section(job, measured, met)


def _arena(job: Job, brokers: str, folder: Path) -> Arena:
    rows = input_rows(job)
    chunks = wide_rows.messages(rows) if job.work is Work.WIDE else events.messages(rows)
    fill(brokers, create(brokers, job.topic), chunks)
    results = {size: expected(job, rows.head(size)) for size in (job.small_rows, job.rows)}
    return Arena(job, brokers, folder, results)


def _line(measured: Measured) -> str:
    return (
        f"{measured.steady_rows_per_cpu_s:,.0f} rows/CPU-s, {measured.steady_rows_per_s:,.0f} rows/s, "
        f"fresh {measured.fresh_rows_per_cpu_s:,.0f} rows/CPU-s"
    )


if __name__ == "__main__":
    sys.exit(main())
