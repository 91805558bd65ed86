"""One pipeline file on a cluster: submitted, cancelled, killed, rescaled, waited for."""

from __future__ import annotations

from pathlib import Path

from support.clusters.session import Cluster
from support.processes.running import wait_until


class ClusterJob:
    """`job` is the one that runs the file now."""

    def __init__(self, cluster: Cluster, file: Path, pipeline: str) -> None:
        self.cluster, self.file = cluster, file
        self.job = ""
        file.write_text(pipeline)

    def submit(self, *arguments: str) -> str:
        """Submits it, and waits until it runs."""
        done = self.cluster.headrace("submit", str(self.file), *arguments)
        assert done.code == 0, done.err
        self.job = done.out.strip()
        self.cluster.wait_state(self.job, "RUNNING")
        return self.job

    def cancel(self) -> None:
        """Ends it; what it has not committed is given up."""
        done = self.cluster.headrace("cancel", self.job)
        assert done.code == 0, done.err

    def rescale(self, parallelism: int) -> None:
        """Goes on with so many subtasks."""
        done = self.cluster.headrace("rescale", self.job, "--parallelism", str(parallelism))
        assert done.code == 0, done.err

    def slots(self) -> list[int]:
        """Pids of the slots that run it now; waits for some."""
        return self.cluster.wait_busy_slots(self.job)

    def attempt(self) -> int:
        """The number of its present attempt."""
        return self.cluster.client.status(self.job).attempt

    def wait_attempt_after(self, attempt: int) -> None:
        """Waits until a later one runs."""

        def runs() -> bool:
            status = self.cluster.status(self.job)
            return status is not None and status.state == "RUNNING" and status.attempt > attempt

        wait_until(runs, f"an attempt after {attempt} runs")

    def wait_checkpoint(self) -> None:
        """Waits for one that is not there yet."""
        before = self._epoch()
        wait_until(lambda: self._epoch() > before, f"a checkpoint after {before}: {self.cluster.status(self.job)}")

    def _epoch(self) -> int:
        status = self.cluster.status(self.job)
        return 0 if status is None or status.checkpoint is None else status.checkpoint.epoch
