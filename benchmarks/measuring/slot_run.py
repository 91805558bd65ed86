"""Runs `headrace run` as users do, and measures it from outside: CPU time of all its processes, and its journal."""

from __future__ import annotations

import bisect
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import AttemptRecord, CheckpointRecord, CommittedRecord, Record
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import HeadraceError
from measuring.process_times import descendants, process_times

SLOT = b"headrace-slot"
SAMPLE_S, LOOK_S, WAIT_S, WHOLE_S = 0.05, 0.05, 120.0, 600.0


def processes(root: int) -> dict[int, float]:
    """CPU seconds (user and system) of a process and of all its live descendants, by pid."""
    times = process_times()
    return {pid: times[pid].own_s for pid in {root, *descendants(root, times)} if pid in times}


@dataclass(slots=True)
class CpuCurve:
    """CPU seconds of a tree of processes over wall time (epoch ms)."""

    at_ms: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def between(self, begin_ms: float, end_ms: float) -> float:
        """CPU seconds spent in that time."""
        return self._at(end_ms) - self._at(begin_ms)

    def _at(self, when_ms: float) -> float:
        right = min(max(bisect.bisect(self.at_ms, when_ms), 1), len(self.at_ms) - 1)
        begin, end = self.at_ms[right - 1], self.at_ms[right]
        share = (when_ms - begin) / (end - begin)
        return self.seconds[right - 1] + share * (self.seconds[right] - self.seconds[right - 1])


@dataclass(slots=True)
class Run:
    """A run in progress. home: its own HEADRACE_HOME."""

    process: subprocess.Popen[bytes]
    home: Path
    cpu: CpuCurve = field(default_factory=CpuCurve)

    def sample(self, until: threading.Event) -> None:
        """Fills `cpu` until the event is set."""
        while not until.wait(SAMPLE_S):
            spent = sum(processes(self.process.pid).values())
            self.cpu.at_ms.append(time.time() * 1000)
            self.cpu.seconds.append(spent)

    def records(self) -> tuple[Record, ...]:
        """The journal so far; empty before it begins."""
        folders = list(self.home.glob("checkpoints/**/journal"))
        if not folders:
            return ()
        try:
            return JournalStore(open_store(str(folders[0].parent)), "", "").load().records
        except HeadraceError:
            return ()  # it is being deleted

    def checkpoints(self) -> list[CheckpointRecord]:
        """All complete ones."""
        return [each for each in self.records() if isinstance(each, CheckpointRecord)]

    def committed_ms(self) -> dict[int, int]:
        """Epoch -> when its `committed` record was written (epoch ms)."""
        return {each.epoch: each.at_ms for each in self.records() if isinstance(each, CommittedRecord)}

    def attempts_ms(self) -> list[int]:
        """When each attempt began."""
        return [each.at_ms for each in self.records() if isinstance(each, AttemptRecord)]

    def wait_for_checkpoints(self, count: int) -> None:
        """Returns when there are this many."""
        deadline = time.monotonic() + WAIT_S
        while len(self.checkpoints()) < count:
            assert self.process.poll() is None, "the run ended"
            assert time.monotonic() < deadline, "no checkpoint completed"
            time.sleep(LOOK_S)

    def slots(self) -> list[int]:
        """The pids of its slot processes."""
        return [pid for pid in processes(self.process.pid) if SLOT in _command(pid)]

    def wait_for_slot(self) -> int:
        """Returns the pid of its only slot process once there is one."""
        deadline = time.monotonic() + WAIT_S
        while not (found := self.slots()):
            assert self.process.poll() is None, "the run ended"
            assert time.monotonic() < deadline, "no slot started"
            time.sleep(LOOK_S)
        assert len(found) == 1, "one slot process is expected"
        return found[0]

    def kill_slot(self) -> float:
        """Kills its only slot process; returns the time (epoch ms)."""
        os.kill(self.wait_for_slot(), signal.SIGKILL)
        return time.time() * 1000

    def follow(self, count: int) -> list[CheckpointRecord]:
        """Its first `count` checkpoints, or all until its end, which deletes them."""
        seen: dict[int, CheckpointRecord] = {}
        while self.process.poll() is None and len(seen) < count:
            seen |= {each.manifest.epoch: each for each in self.checkpoints()}
            time.sleep(LOOK_S)
        assert self.process.returncode in (None, 0), f"headrace run ended with code {self.process.returncode}"
        return [record for _, record in sorted(seen.items())]

    def wait_for_end(self) -> None:
        """Returns when it has read all of its input and ended without an error."""
        code = self.process.wait(WHOLE_S)
        assert code == 0, f"headrace run ended with code {code}"

    def stop(self) -> None:
        """Ends it as a service manager does: a background job of a shell may have been started with SIGINT ignored."""
        self.process.terminate()
        self.process.wait()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended


@contextmanager
def started(
    pipeline: Mapping[str, Any], folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Run]:
    """Runs a pipeline in slot processes; ends it at the end of the context, also after an error. environment: variables
    beside those of this process."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(pipeline))  # JSON is YAML
    home = folder / "home"
    with (folder / "run.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "run", str(file), *arguments],
            env=os.environ | {"HEADRACE_HOME": str(home), "POLARS_MAX_THREADS": "1"} | dict(environment or {}),
            stdout=log,
            stderr=log,
        )
    run, over = Run(process, home), threading.Event()
    sampler = threading.Thread(target=run.sample, args=(over,))
    sampler.start()
    try:
        yield run
    finally:
        over.set()
        sampler.join()
        if process.poll() is None:
            process.kill()
            process.wait()


def position(record: CheckpointRecord) -> int:
    """The number of input rows that a checkpoint covers: all partitions begin at 0."""
    return sum(split.position for source in record.manifest.sources.values() for split in source.splits)


def rows_per_cpu_s(run: Run, checkpoints: Sequence[CheckpointRecord], rows: int) -> float:
    """From the first checkpoint that found rows read to the last one that found rows left to read."""
    under_way = [each for each in checkpoints if 0 < position(each) < rows]
    assert len(under_way) > 2, "too few checkpoints to measure between: give it more rows"
    first, last = under_way[0], under_way[-1]
    return (position(last) - position(first)) / run.cpu.between(first.at_ms, last.at_ms)


def rows_per_cpu_s_by_turns(
    run: Run, checkpoints: Sequence[CheckpointRecord], rows: int, phase: Callable[[float], int]
) -> tuple[float, float]:
    """Of even and of odd phases: all intervals between two checkpoints within one phase, but for the first phase.
    phase: the number of that of a time (epoch ms)."""
    read, spent, intervals = [0, 0], [0.0, 0.0], [0, 0]
    under_way = [each for each in checkpoints if 0 < position(each) < rows]
    began = phase(under_way[0].at_ms) if under_way else 0
    for first, last in itertools.pairwise(under_way):
        number = phase(first.at_ms)
        if began < number == phase(last.at_ms):
            read[number % 2] += position(last) - position(first)
            spent[number % 2] += run.cpu.between(first.at_ms, last.at_ms)
            intervals[number % 2] += 1
    assert min(intervals) > 2, "too few checkpoints in one of the phases: give it more rows"
    return read[0] / spent[0], read[1] / spent[1]
