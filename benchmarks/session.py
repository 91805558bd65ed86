"""Measures a session cluster: a wide job, a job with backpressure, and many small jobs one after another.

usage: session.py [--only wide|backpressure|submissions] [--seconds N] [--jobs N]

Two workers of two slots each and a coordinator, started as `headrace cluster start` does it; no broker.

    wide          16 tasks x parallelism 4 in 4 slots with a checkpoint every second: the coordinator's share of a core,
                  and the duration of its checkpoints
    backpressure  an unlimited source before a step that processes 10,000 rows a second, in batches of up to 32,768: the
                  duration of checkpoints, from trigger to completion
    submissions   jobs one after another, each with rows, a checkpoint and an end: memory, descriptors, threads and
                  processes of the cluster after a tenth of them and after the last one, and seconds per job
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring.figures import Figure
from measuring.slot_run import processes

from headrace.client.discovery import recorded_token
from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.core.settings import Home
from headrace.local.cluster import lifecycle
from headrace.local.cluster.record import ClusterRecord

PARTS = ("wide", "backpressure", "submissions")
WORKERS, SLOTS, TASKS, PARALLELISM = 2, 2, 16, 4
SECONDS, JOBS, SETTLE_CHECKPOINTS, LOOK_S, WAIT_S = 30, 200, 3, 0.2, 120.0
SCHEMA = {"n": "int64", "k": "int64", "at": "timestamp"}
SLOW = """\
import time


def slow(rows):
    time.sleep(rows.height / 10_000)
    return rows
"""


@dataclass(frozen=True, slots=True)
class Session:
    """A running cluster and its client."""

    folder: Path
    record: ClusterRecord
    client: Client

    def coordinator_cpu_s(self) -> float:
        """User and system time of the coordinator so far, without its children."""
        assert self.record.coordinator is not None
        pid = self.record.coordinator.pid
        return processes(pid)[pid]

    def submit(self, pipeline: dict[str, Any]) -> str:
        """Submits a job and returns its id without waiting."""
        return self.client.submit(SubmitRequest(pipeline=pipeline, python_path=(str(self.folder),)))

    def durations_ms(self, job: str, seconds: float) -> list[float]:
        """The durations of the checkpoints in this many seconds, without the first few."""
        self.wait_checkpoints(job)
        end, found = time.monotonic() + seconds, dict[int, float]()
        while time.monotonic() < end:
            time.sleep(LOOK_S)
            for each in self.client.checkpoints(job):
                assert each.status != "failed", each.failure
                if each.duration_ms is not None:
                    found[each.epoch] = each.duration_ms
        return [took for epoch, took in sorted(found.items()) if epoch > SETTLE_CHECKPOINTS]

    def wait_checkpoints(self, job: str) -> None:
        """Returns when a job has completed `SETTLE_CHECKPOINTS` checkpoints."""
        deadline = time.monotonic() + WAIT_S
        while (newest := (status := self.client.status(job)).checkpoint) is None or newest.epoch < SETTLE_CHECKPOINTS:
            assert status.failure is None, status.failure
            assert time.monotonic() < deadline, "no checkpoint completed"
            time.sleep(LOOK_S)

    def cancel(self, job: str) -> None:
        """Returns when it has ended."""
        self.client.wait_trigger(self.client.cancel(job))


@contextmanager
def session(folder: Path) -> Iterator[Session]:
    """Starts a cluster in its own home; stops it at the end, also after an error."""
    home = Home(folder / "home")
    (folder / "slowly.py").write_text(SLOW)
    record, _ = lifecycle.start(home, WORKERS, SLOTS)
    try:
        with Client(record.url, recorded_token(home)) as client:
            yield Session(folder, record, client)
    finally:
        lifecycle.stop(home)


def source(**options: int) -> dict[str, Any]:
    """Numbers of ten thousand keys, a thousand a second of event time."""
    columns = {"n": {"sequence": {}}, "k": {"int": {"max": 9_999}}, "at": {"time": {"step": "1ms"}}}
    return {"generator": {"columns": columns, **options}, "schema": SCHEMA, "time": {"column": "at"}}


def sums(upstream: str) -> dict[str, Any]:
    """A windowed sum by key."""
    return {"from": upstream, "key_by": ["k"], "window": {"tumbling": "10s"}, "aggregate": {"s": "sum(n)"}}


def files(folder: Path, upstream: str) -> dict[str, Any]:
    """A sink of files."""
    return {"from": upstream, "files": {"path": str(folder / "out")}, "format": "json"}


def wide(folder: Path) -> dict[str, Any]:
    """A source, filters, an aggregate and a sink, every edge between them over the exchange."""
    steps: dict[str, Any] = {}
    upstream = "numbers"
    for number in range(TASKS - 3):
        name = f"kept_{number}"
        steps[name] = {"from": upstream, "filter": "n >= 0", "partition": "rebalance"}
        upstream = name
    steps["sums"] = sums(upstream)
    return {
        "name": "wide",
        "parallelism": PARALLELISM,
        "checkpoint": {"interval": "1s"},
        "sources": {"numbers": source(rate=100, partitions=PARALLELISM)},
        "steps": steps,
        "sinks": {"out": files(folder, "sums") | {"partition": "rebalance"}},
    }


def held_back(folder: Path) -> dict[str, Any]:
    """A source without limit before a slow step."""
    slow = {"from": "numbers", "partition": "rebalance", "map": {"function": "slowly:slow", "schema": SCHEMA}}
    return {
        "name": "held-back",
        "parallelism": 2,
        "checkpoint": {"interval": "1s"},
        "sources": {"numbers": source(partitions=2)},
        "steps": {"slowed": slow},
        "sinks": {"out": files(folder, "slowed")},
    }


def small(folder: Path, number: int) -> dict[str, Any]:
    """A bounded job with state."""
    return {
        "name": f"small-{number}",
        "parallelism": 2,
        "sources": {"numbers": source(rows=2_000, partitions=2)},
        "steps": {"sums": sums("numbers")},
        "sinks": {"out": files(folder, "sums")},
    }


def measure_wide(run: Session, seconds: float) -> list[Figure]:
    job = run.submit(wide(run.folder))
    run.wait_checkpoints(job)
    tasks = [node for node in run.client.status(job).nodes if len(node.subtasks) == PARALLELISM]
    assert len(tasks) == TASKS, f"{len(tasks)} tasks"
    begun, spent = time.monotonic(), run.coordinator_cpu_s()
    took = run.durations_ms(job, seconds)
    share = (run.coordinator_cpu_s() - spent) / (time.monotonic() - begun)
    run.cancel(job)
    return [
        Figure("wide: the coordinator, of a core", "%", [share * 100], []),
        Figure("wide: a checkpoint", "ms", took, []),
    ]


def measure_backpressure(run: Session, seconds: float) -> list[Figure]:
    job = run.submit(held_back(run.folder))
    took = run.durations_ms(job, seconds)
    held = max(node.backpressured for node in run.client.status(job).nodes)
    run.cancel(job)
    return [
        Figure("backpressure: the source waits", "%", [held * 100], []),
        Figure("backpressure: a checkpoint", "ms", took, []),
    ]


@dataclass(frozen=True, slots=True)
class Taken:
    """The resources of all processes of the cluster."""

    processes: int
    threads: int
    descriptors: int
    memory_mib: float

    @staticmethod
    def of(record: ClusterRecord) -> Taken:
        """Now."""
        pids = {pid for member in record.members for pid in processes(member.pid)}
        status = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
        return Taken(
            processes=len(pids),
            threads=sum(_number(text, "Threads") for text in status),
            descriptors=sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
            memory_mib=sum(_number(text, "VmRSS") for text in status) / 1024,
        )


def _number(status: str, name: str) -> int:
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:"))


def measure_submissions(run: Session, jobs: int) -> list[Figure]:
    found: list[Taken] = []
    took: list[float] = []
    for number in range(1, jobs + 1):
        begun = time.monotonic()
        job = run.submit(small(run.folder, number))
        ended = run.client.wait(job)
        assert ended.state == "FINISHED", ended.failure
        took.append(time.monotonic() - begun)
        if number in (jobs // 10, jobs):
            found.append(settled(run))
            print(f"submissions {number}/{jobs}: {found[-1]}", file=sys.stderr, flush=True)
    early, late = found
    taken = [
        Figure(f"submissions: {name}", unit, [float(getattr(late, name))], [float(getattr(early, name))])
        for name, unit in (("processes", ""), ("threads", ""), ("descriptors", ""), ("memory_mib", "MiB"))
    ]
    return [*taken, Figure("submissions: a job", "ms", [each * 1000 for each in took], [])]


def settled(run: Session) -> Taken:
    """The resources after slots have been replaced: waits until two measurements are equal."""
    deadline, last = time.monotonic() + WAIT_S, None
    while time.monotonic() < deadline:
        time.sleep(1)
        now = Taken.of(run.record)
        if last is not None and (now.processes, now.threads) == (last.processes, last.threads):
            return now
        last = now
    raise AssertionError("its processes do not come to rest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    options = parser.parse_args()
    wanted = options.only or PARTS
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, session(Path(folder)) as run:
        if "wide" in wanted:
            found += measure_wide(run, options.seconds)
        if "backpressure" in wanted:
            found += measure_backpressure(run, options.seconds)
        if "submissions" in wanted:
            found += measure_submissions(run, options.jobs)
    for each in found:
        print(each.text("early on"))


if __name__ == "__main__":
    main()
