"""Flows of tests/flows on a session cluster: run straight, killed, rescaled and saved, each to its end.

    Stage     one run: a place of its own (`support.flow_site`), and jobs there, one after the other

A run whose source ended before it could be disturbed is `TooQuickError`: `disturbed` runs it again, more slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.api.cluster import submit
from headrace.checkpoint.savepoint import find
from headrace.client.models import FINAL_STATES, JobStatus
from headrace.core.errors import HeadraceError
from headrace.core.source_state import SourceState
from headrace.local.broker import EmbeddedBroker
from headrace.spec.pipeline import Pipeline
from support.cluster import Cluster, kill
from support.flow_inputs import SAYS_NOTHING
from support.flow_site import Flow, FlowSite
from support.running import wait_until

ROWS = 3_000
"""Rows of a generator in a flow, about."""
AT_ONCE = 1e9
CHECKPOINTS = {"interval": "300ms"}
RESTART = {"strategy": "fixed-delay", "attempts": 10, "delay": "100ms"}


class TooQuickError(Exception):
    """The run had ended before something could happen to it."""


class Stage(FlowSite):
    """One run of a flow in a place of its own. `seconds`: how long its sources take at least, None: as they can."""

    def __init__(
        self, flow: Flow, cluster: Cluster, broker: Callable[[], EmbeddedBroker], folder: Path, seconds: float | None
    ) -> None:
        super().__init__(flow, broker, folder)
        self.cluster = cluster
        self.jobs: list[str] = []
        self._seconds = seconds

    @property
    def job(self) -> str:
        """The one that runs now."""
        return self.jobs[-1]

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def submit(self, parallelism: int = 2, *, savepoint: str | None = None, at_once: bool = False) -> str:
        """Gives it to the cluster. `at_once`: whatever `seconds` says."""
        rate = AT_ONCE if at_once or self._seconds is None else ROWS / self._seconds
        document = self.document(rate)
        document |= {
            "parallelism": parallelism,
            "checkpoint": document.get("checkpoint", {}) | CHECKPOINTS,
            "restart": RESTART,
        }
        job = submit(
            Pipeline.from_dict(document),
            from_savepoint=savepoint,
            py_files=[self.folder / "pacing.py"],
            coordinator=self.cluster.client.url,
        )
        self.jobs.append(job)
        return job

    def status(self) -> JobStatus:
        """Of the job that runs now."""
        return self.cluster.client.status(self.job)

    def wait(self, is_so: Callable[[JobStatus], bool], what: str) -> JobStatus:
        """Until it is so. TooQuickError where it ended before."""
        seen: list[JobStatus] = []

        def look() -> bool:
            seen[:] = [self.status()]
            assert seen[0].state != "FAILED", seen[0].failure
            return is_so(seen[0]) or seen[0].state in FINAL_STATES

        try:
            wait_until(look, f"{self.flow.name}: {what}")
        except AssertionError as error:
            raise AssertionError(f"{error}; found {seen[0].model_dump_json(indent=1)}") from error
        if not is_so(seen[0]):
            raise TooQuickError(f"{self.flow.name} was {seen[0].state} before {what}")
        return seen[0]

    def checkpointed(self) -> JobStatus:
        """Once it runs and has a checkpoint that is newer than those there are now."""
        before = _epoch(self.status())
        return self.wait(lambda status: status.state == "RUNNING" and _epoch(status) > before, "a checkpoint")

    def kill_slot(self) -> None:
        """SIGKILL of one of its slots; returns when a new attempt runs, or has run to its end."""
        attempt = self.wait(lambda status: status.state == "RUNNING", "running").attempt
        slots = self.cluster.busy_slots(self.job)
        if not slots:
            raise TooQuickError(f"{self.flow.name} has no slot any more")
        kill(slots[attempt % len(slots)])
        self.wait(lambda status: status.state in {"RUNNING", "FINISHED"} and status.attempt > attempt, "running again")

    def rescale(self, parallelism: int) -> None:
        """Goes on with another parallelism."""
        with self._while_it_runs():
            self.cluster.client.wait_trigger(self.cluster.client.rescale(self.job, parallelism))
        assert self.status().parallelism == parallelism

    def stop(self, *, savepoint: bool = True, drain: bool = False) -> str:
        """Stops it at a cut; the path to go on from."""
        place = str(self.folder / "savepoints") if savepoint else None
        with self._while_it_runs():
            done = self.cluster.client.wait_trigger(self.cluster.client.stop(self.job, place, drain=drain))
        assert done.path is not None
        self.cluster.wait_state(self.job, "FINISHED")
        if not drain and find(done.path).manifest.drained:
            raise TooQuickError(f"{self.flow.name} had read everything before it was stopped")
        return done.path

    @contextmanager
    def _while_it_runs(self) -> Iterator[None]:
        """What is refused because the job ended meanwhile came too late."""
        self.wait(lambda status: status.state == "RUNNING", "running")
        try:
            yield
        except HeadraceError as error:
            if self.status().state in FINAL_STATES:
                raise TooQuickError(str(error)) from error
            raise

    def finish(self) -> None:
        """To the end of its input."""
        if self.flow.topic is not None:
            self.stop(savepoint=False, drain=True)
        self.cluster.wait_state(self.job, "FINISHED")

    def cancel(self) -> None:
        """Ends it, however it stands."""
        if self.jobs and self.status().state not in FINAL_STATES:
            self.cluster.client.wait_trigger(self.cluster.client.cancel(self.job))

    # ---- input ---------------------------------------------------------------------------------------------------

    def settle(self, number: int) -> None:
        """Until parts up to this one have been read, time stands where it should, and a checkpoint has all that."""
        part, fed = self.parts[number], list(self._fed)
        (source,) = self.flow.document["sources"]

        def stands(status: JobStatus) -> bool:
            if part.watermark is None:
                return True
            # where all partitions are silent nothing moves: the one that spoke last goes on until the others are there
            self._produce(part.speaker, [SAYS_NOTHING])
            return next((node.watermark for node in status.nodes if node.node == source), None) == part.watermark

        def is_read() -> bool:
            read = self._read()
            return bool(read) and all(at >= end for at, end in zip(read, fed, strict=True))

        self.wait(lambda status: status.state == "RUNNING" and stands(status) and is_read(), f"part {number} was read")
        # the two after it: one that was under way when it was so may have been cut before
        self.checkpointed()
        self.checkpointed()

    def _read(self) -> list[int]:
        """Positions in the newest checkpoint, by partition."""
        state = self._source_state()
        return [] if state is None else [split.position for split in state.splits]

    def _source_state(self) -> SourceState | None:
        """Of the only source, in the newest checkpoint. None: there is none, or it has just made way for newer ones."""
        checkpoint = self.status().checkpoint
        if checkpoint is None:
            return None
        try:
            manifest = find(checkpoint.path).manifest
        except HeadraceError:
            if self.status().checkpoint == checkpoint:
                raise
            return None
        (state,) = manifest.sources.values()
        return state

    def floors(self) -> list[tuple[int, int, int]]:
        """(partition, position, floor) of the floors in the newest checkpoint that any row came after."""
        state = self._source_state()
        assert state is not None
        read = {split.partition: split.position for split in state.splits}
        return sorted(
            (each.partition, each.position, each.floor)
            for each in state.applied
            if each.position < read[each.partition]
        )


def _epoch(status: JobStatus) -> int:
    return 0 if status.checkpoint is None else status.checkpoint.epoch
