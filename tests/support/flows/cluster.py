"""Flows of tests/flows on a session cluster, fed part by part: released, killed, rescaled, stopped and gone on.

    Stage     one run: a place of its own (`support.flows.site`), and jobs there, one after the other

No step takes a time: a source reads what has been released to it (`support.clusters.gates`; Kafka: what has been
written) and waits for more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from headrace.api.cluster import submit
from headrace.checkpoint.savepoints.savepoint import find
from headrace.client.models import FINAL_STATES, JobStatus
from headrace.core.errors import HeadraceError
from headrace.core.source_state import SourceState
from headrace.spec.reading.read import pipeline_from_dict
from headrace_dev.broker import EmbeddedBroker
from support.clusters.gates import Gates
from support.clusters.session import Cluster, kill
from support.flows.inputs import SAYS_NOTHING
from support.flows.site import Flow, FlowSite
from support.processes.running import wait_until

PARTS = 4
"""Equal parts of what sources behind gates read; topics come in parts of their own."""
CHECKPOINTS = {"interval": "300ms"}
RESTART = {"strategy": "fixed-delay", "attempts": 10, "delay": "100ms"}

Positions = Mapping[str, Mapping[int, int]]
"""Source -> partition -> position."""


class Stage(FlowSite):
    """One run of a flow in a place of its own."""

    def __init__(self, flow: Flow, cluster: Cluster, broker: Callable[[], EmbeddedBroker], folder: Path) -> None:
        super().__init__(flow, broker, folder)
        self.cluster = cluster
        self.jobs: list[str] = []
        self._gates = None if flow.topic is not None else Gates(self.document(), folder / "gates")
        self._released: Positions = {}

    @property
    def job(self) -> str:
        """The one that runs now."""
        return self.jobs[-1]

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def submit(self, parallelism: int = 2, *, savepoint: str | None = None) -> str:
        """Gives it to the cluster."""
        document = self.document() if self._gates is None else self._gates.document
        settings: dict[str, Any] = {
            "parallelism": parallelism,
            "checkpoint": document.get("checkpoint", {}) | CHECKPOINTS,
            "restart": RESTART,
        }
        # its home has the token
        with patch.dict(os.environ, {"HEADRACE_HOME": str(self.cluster.home)}):
            job = submit(
                pipeline_from_dict(document | settings),
                from_savepoint=savepoint,
                py_files=[self.folder / "same_rows.py"],
                coordinator=self.cluster.client.url,
            )
        self.jobs.append(job)
        return job

    def status(self) -> JobStatus:
        """Of the job that runs now."""
        return self.cluster.client.status(self.job)

    def wait(self, is_so: Callable[[JobStatus], bool], what: str) -> JobStatus:
        """Waits until it is so, while the job has not ended."""
        seen: list[JobStatus] = []

        def look() -> bool:
            seen[:] = [self.status()]
            assert seen[0].state not in FINAL_STATES, f"{seen[0].state} before {what}: {seen[0].failure}"
            return is_so(seen[0])

        try:
            wait_until(look, f"{self.flow.name}: {what}")
        except AssertionError as error:
            raise AssertionError(f"{error}; found {seen[0].model_dump_json(indent=1)}") from error
        return seen[0]

    def wait_running(self, after_attempt: int = 0) -> JobStatus:
        """Waits until an attempt runs that is later than that one."""
        return self.wait(
            lambda status: status.state == "RUNNING" and status.attempt > after_attempt,
            f"an attempt after {after_attempt} runs",
        )

    def wait_checkpoint(self) -> JobStatus:
        """Waits for a checkpoint that is newer than those there are now."""
        before = _epoch(self.status())
        return self.wait(lambda status: _epoch(status) > before, f"a checkpoint after {before}")

    def kill_slot(self) -> None:
        """SIGKILL of one of its slots; returns when a new attempt runs."""
        attempt = self.wait_running().attempt
        slots = self.cluster.wait_busy_slots(self.job)
        kill(slots[attempt % len(slots)])
        self.wait_running(attempt)

    def kill_slot_holding(self, number: int) -> None:
        """Releases one more part and kills a slot when rows of it have been read that no checkpoint has.

        Rows from Kafka are killed at any point: nothing holds its checkpoints back.
        """
        if self._gates is None:
            self.release(number)
            self.kill_slot()
            return
        attempt = self.wait_running().attempt
        self._open(number, closed=True)
        self.wait(lambda _: self._gates is not None and self._gates.is_held(), f"part {number} is read")
        slots = self.cluster.wait_busy_slots(self.job)
        kill(slots[attempt % len(slots)])
        self._open(number)
        self.wait_running(attempt)

    def rescale(self, parallelism: int) -> None:
        """Goes on with another parallelism."""
        attempt = self.wait_running().attempt
        self.cluster.client.wait_trigger(self.cluster.client.rescale(self.job, parallelism))
        assert self.wait_running(attempt).parallelism == parallelism

    def stop(self, *, savepoint: bool = True, drain: bool = False) -> str:
        """Stops it at a cut; the path to go on from."""
        self.wait_running()
        place = str(self.folder / "savepoints") if savepoint else None
        done = self.cluster.client.wait_trigger(self.cluster.client.stop(self.job, place, drain=drain))
        self.cluster.wait_state(self.job, "FINISHED")
        assert done.path is not None
        assert find(done.path).manifest.drained == drain
        return done.path

    def finish(self) -> None:
        """To the end of its input."""
        if self._gates is None:
            self.stop(savepoint=False, drain=True)
        else:
            self.release(PARTS - 1)
            self.cluster.wait_state(self.job, "FINISHED")

    def cancel(self) -> None:
        """Ends it, however it stands."""
        if self.jobs and self.status().state not in FINAL_STATES:
            self.cluster.client.wait_trigger(self.cluster.client.cancel(self.job))

    # ---- input ---------------------------------------------------------------------------------------------------

    def release(self, number: int) -> None:
        """Lets the sources read one part more."""
        if self._gates is None:
            self.feed(number)
        else:
            self._open(number)

    def _open(self, number: int, *, closed: bool = False) -> None:
        assert self._gates is not None
        self._released = self._gates.open(self._gates.share(number + 1, PARTS), closed=closed)

    def settle(self, number: int) -> None:
        """Waits until a checkpoint has all that was released up to this part, and time stands where it should."""
        if self._gates is None:
            (source,) = self.flow.document["sources"]
            self._released = {source: dict(enumerate(self._fed))}
            if self.parts[number].watermark is not None:
                self._wait_watermark(source, number)
        self.wait(lambda _: self._is_read(), f"part {number} is read")

    def _wait_watermark(self, source: str, number: int) -> None:
        """Until time stands at the part's watermark, and a checkpoint was begun after that."""
        part = self.parts[number]

        def stands(status: JobStatus) -> bool:
            # where all partitions are silent nothing moves: the one that spoke last goes on until the others are there
            self._produce(part.speaker, [SAYS_NOTHING])
            return next((node.watermark for node in status.nodes if node.node == source), None) == part.watermark

        self.wait(lambda status: self._is_read() and stands(status), f"time stands at part {number}")
        # the one that is under way now may have been cut before
        self.wait_checkpoint()
        self.wait_checkpoint()

    def _is_read(self) -> bool:
        """Whether the newest checkpoint has all rows that were released."""
        states = self._source_states()
        return all(
            at <= _positions(states[source]).get(partition, -1) if source in states else False
            for source, partitions in self._released.items()
            for partition, at in partitions.items()
        )

    def _source_states(self) -> Mapping[str, SourceState]:
        """Of the newest checkpoint. Empty: there is none, or it has just made way for newer ones."""
        checkpoint = self.status().checkpoint
        if checkpoint is None:
            return {}
        try:
            return find(checkpoint.path).manifest.sources
        except HeadraceError:
            if self.status().checkpoint == checkpoint:
                raise
            return {}

    def floors(self) -> list[tuple[int, int, int]]:
        """(partition, position, floor) of the floors in the newest checkpoint that any row came after."""
        (state,) = self._source_states().values()
        read = _positions(state)
        return sorted(
            (each.partition, each.position, each.floor)
            for each in state.applied
            if each.position < read[each.partition]
        )


def _positions(state: SourceState) -> Mapping[int, int]:
    return {split.partition: split.position for split in state.splits}


def _epoch(status: JobStatus) -> int:
    return 0 if status.checkpoint is None else status.checkpoint.epoch
