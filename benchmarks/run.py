"""Runs the benchmarks, engine and upper bound alternately, and prints one table. See README.md beside this file."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import exactly_once
import latency
from measuring.figures import Figure, alternating, median, spread
from rich.console import Console
from rich.table import Table
from workloads import garbage
from workloads.data import PARTITIONS, fill

from headrace.local.topics.topics import create_topic
from headrace_dev.broker import BrokerConfig, EmbeddedBroker

HERE = Path(__file__).parent
ROWS, GARBAGE_ROWS = 3_000_000, 1_000_000
NAMES = ("W", "K", "P", "latency", "garbage", "exactly-once", "committer")
WITHOUT_BROKER = {"W", "committer"}
"""The benchmarks that need no broker, or start their own."""


def child(script: str, *arguments: str) -> dict[str, float]:
    """Runs a script of this folder in a new process and returns the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"POLARS_MAX_THREADS": "1"},
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def in_process(count: int) -> Figure:
    return alternating(
        "W",
        count,
        lambda: child("in_process.py", "engine")["rows_per_cpu_s"],
        lambda: child("in_process.py", "ceiling")["rows_per_cpu_s"],
    )


def through_kafka(name: str, brokers: str, count: int) -> Figure:
    job = name.lower()
    made = iter(range(10_000))

    def run(script: str) -> float:
        sink = f"{job}-out-{next(made)}"
        create_topic(brokers, sink, partitions=PARTITIONS, config={"retention.ms": "-1"})
        return child(script, job, brokers, "in", sink)["rows_per_cpu_s"]

    return alternating(name, count, lambda: run("engine.py"), lambda: run("bare_loop.py"))


def with_garbage(brokers: str, count: int) -> Figure:
    """A million messages, 1 % of them malformed. Fails unless the output accounts for every one."""
    _, bad, tombstones = garbage.messages(GARBAGE_ROWS)
    create_topic(brokers, "garbage", partitions=PARTITIONS)
    garbage.fill(brokers, "garbage", GARBAGE_ROWS)
    found: list[float] = []
    for number in range(count):
        create_topic(brokers, f"garbage-out-{number}", partitions=PARTITIONS)
        figures = child("engine.py", "g", brokers, "garbage", f"garbage-out-{number}")
        assert figures["rows"] == GARBAGE_ROWS, figures
        assert figures["bad"] == bad, figures
        # every good message and every bad one is written; tombstones are no rows
        assert figures["rows_out"] == GARBAGE_ROWS - tombstones, figures
        found.append(figures["rows_per_cpu_s"])
    return Figure("garbage", "rows/CPU-s", found, [])


def latencies(brokers: str, count: int) -> list[Figure]:
    latency.warm_up(brokers, str(HERE / "bare_loop.py"))
    measured = {"engine.py": [], "bare_loop.py": []}  # type: dict[str, list[tuple[float, float]]]
    for _ in range(count):
        for script, values in measured.items():
            values.append(latency.measure(brokers, str(HERE / script)))
    return [
        Figure(
            f"latency p{percent}",
            "ms",
            [value[index] for value in measured["engine.py"]],
            [value[index] for value in measured["bare_loop.py"]],
        )
        for index, percent in enumerate((50, 99))
    ]


def committing() -> list[Figure]:
    """The committer of 64 transactions a second."""
    figures = child("committer.py")
    return [
        Figure("committer, of a core", "%", [figures["core_share"] * 100], []),
        Figure("committer, describe", "ms", [figures["describe_ms"]], []),
        Figure("committer, commit", "ms", [figures["commit_ms"]], []),
    ]


def table(outcomes: Sequence[Figure]) -> Table:
    shown = Table(title="Headrace benchmarks: median of alternating pairs")
    for title in ("", "unit", "engine", "spread", "ceiling", "spread", "ratio"):
        shown.add_column(title, justify="left" if title == "" else "right")
    for item in outcomes:
        ceiling = (f"{median(item.other):,.0f}", spread(item.other)) if item.other else ("", "")
        ratio = "" if item.ratio is None else f"{item.ratio:.2f}"
        shown.add_row(item.name, item.unit, f"{median(item.value):,.0f}", spread(item.value), *ceiling, ratio)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=ROWS, help="messages of K and P")
    options = parser.parse_args()
    wanted = options.only or NAMES
    outcomes: list[Figure] = []
    if "W" in wanted:
        outcomes.append(in_process(options.pairs))
    if set(wanted) - WITHOUT_BROKER:
        outcomes += on_broker(wanted, options.pairs, options.rows)
    if "committer" in wanted:
        outcomes += committing()
    Console(width=120).print(table(outcomes))


def on_broker(wanted: Sequence[str], count: int, rows: int) -> list[Figure]:
    outcomes: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(BrokerConfig(Path(folder))) as broker:
        if {"K", "P"} & set(wanted):
            create_topic(broker.bootstrap, "in", partitions=PARTITIONS, config={"retention.ms": "-1"})
            fill(broker.bootstrap, "in", rows)
        outcomes += [through_kafka(name, broker.bootstrap, count) for name in ("K", "P") if name in wanted]
        if "garbage" in wanted:
            outcomes.append(with_garbage(broker.bootstrap, count))
        if "latency" in wanted:
            outcomes += latencies(broker.bootstrap, count)
        if "exactly-once" in wanted:
            outcomes += exactly_once.measure(broker.bootstrap, exactly_once.PARTS, pairs=count)
    return outcomes


if __name__ == "__main__":
    main()
