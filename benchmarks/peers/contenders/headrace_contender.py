"""Headrace as users start it: `headrace run FILE`, in its own processes, exactly once."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace

from peers.contenders.contender import Bout, child_environment, partition_end
from peers.jobs import PARTITIONS
from peers.phase import Measured, Phase
from peers.pipelines import pipeline
from peers.process_tree import whole_run


@dataclass(frozen=True, slots=True)
class Headrace:
    """The Headrace of this interpreter, with its default settings. in_memory: with all state in memory, too."""

    name: str = "Headrace"
    in_memory: bool = False

    def run(self, bout: Bout) -> Measured:
        if self.in_memory:
            bout = replace(bout, job=replace(bout.job, state_mb=None))
        small = _run(bout, "small", bout.small_output, rows=bout.job.small_rows)
        large = _run(bout, "large", bout.large_output, rows=bout.job.rows)
        return Measured(small=small, large=large, fresh=large)


def _run(bout: Bout, size: str, sink: str, *, rows: int) -> Phase:
    folder = bout.folder / size
    folder.mkdir(parents=True)
    stop = dict.fromkeys(range(PARTITIONS), partition_end(rows))
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(pipeline(bout.job, bout.brokers, bout.source, sink, stop=stop)))  # JSON is YAML
    command = [sys.executable, "-m", "headrace", "run", str(file), "--parallelism", "1"]
    environment = child_environment(HEADRACE_HOME=str(folder / "home"))
    return whole_run(command, folder, rows=rows, environment=environment)
