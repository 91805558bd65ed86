"""Bare loops: the same libraries without an engine."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from peers.contenders.contender import Bout, child_environment, partition_end
from peers.phase import Measured, Phase
from peers.process_tree import whole_run

BENCHMARKS = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Bare:
    """One kind of `peers.contenders.bare_loop`."""

    kind: str
    name: str

    def run(self, bout: Bout) -> Measured:
        small = self._run(bout, "small", bout.small_output, rows=bout.job.small_rows)
        large = self._run(bout, "large", bout.large_output, rows=bout.job.rows)
        return Measured(small=small, large=large, fresh=large)

    def _run(self, bout: Bout, size: str, sink: str, *, rows: int) -> Phase:
        folder = bout.folder / size
        folder.mkdir(parents=True)
        arguments = [self.kind, bout.job.work, bout.brokers, bout.source, sink, str(partition_end(rows)), str(folder)]
        path = os.pathsep.join((str(BENCHMARKS), os.environ.get("PYTHONPATH", "")))
        environment = child_environment(PYTHONPATH=path, POLARS_MAX_THREADS="1")
        command = [sys.executable, "-m", "peers.contenders.bare_loop", *arguments]
        return whole_run(command, folder, rows=rows, environment=environment)


BARE_LOOPS = (
    Bare("transactional", "bare loop, exactly once"),
    Bare("batch", "bare loop, batch calls, at least once"),
)
