"""Flink with expert tuning, in one JVM that is warmed up before it is measured.

DataStream API, state on the heap or in RocksDB with incremental checkpoints, exactly once, a checkpoint a second, a
pull parser, objects reused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from measuring.flink_build import FlinkBuild

from peers.contenders.contender import Bout, child_environment, partition_end
from peers.phase import Measured, Phase
from peers.process_tree import ProcessTree, started

COLLECTOR = "-XX:+UseParallelGC"
"""With this collector K needs a quarter less CPU than with Java's default, G1: rows are short-lived, and pauses do not
matter here."""
OPENED = tuple(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util", "time"))


@dataclass(frozen=True, slots=True)
class Flink:
    """The job server of a build."""

    build: FlinkBuild
    name: str = "Flink, tuned"

    def run(self, bout: Bout) -> Measured:
        job, begun = bout.job, time.perf_counter()
        with started(self._command(bout), bout.folder, environment=child_environment()) as tree:
            _order(tree, bout, bout.scratch_output, job.rows)
            fresh = Phase(rows=job.rows, cpu_s=tree.cpu_s(), wall_s=time.perf_counter() - begun)
            for _ in range(job.warm_ups - 1):
                _order(tree, bout, bout.scratch_output, job.rows)
            small = _measured(tree, bout, bout.small_output, job.small_rows)
            large = _measured(tree, bout, bout.large_output, job.rows)
            tree.end()
        return Measured(small=small, large=large, fresh=fresh)

    def _command(self, bout: Bout) -> list[str]:
        heap = f"{bout.job.flink_heap_gb}g"
        checkpoints = bout.folder / "checkpoints"
        java = [
            str(self.build.java.program),
            f"-Xms{heap}",
            f"-Xmx{heap}",
            COLLECTOR,
            *OPENED,
            "-cp",
            self.build.classpath,
        ]
        state = "heap" if bout.job.state_mb is None else str(bout.job.state_mb)
        return [*java, "peers.JobServer", bout.job.work, bout.brokers, str(checkpoints), state]


def _measured(tree: ProcessTree, bout: Bout, sink: str, rows: int) -> Phase:
    cpu_s, begun = tree.cpu_s(), time.perf_counter()
    _order(tree, bout, sink, rows)
    return Phase(rows=rows, cpu_s=tree.cpu_s() - cpu_s, wall_s=time.perf_counter() - begun)


def _order(tree: ProcessTree, bout: Bout, sink: str, rows: int) -> None:
    """Runs the job over `rows` rows on the server, to its end."""
    tree.stdin.write(f"{bout.source} {sink} {partition_end(rows)}\n")
    tree.stdin.flush()
    answer = tree.stdout.readline()
    if answer != "done\n":
        raise tree.failed(f"Flink's job server answered {answer!r}")
