"""Spark: the tasks of one epoch, each of which writes the state and stages the rows of its partitions.

State is in chunks (`sim.processes.chunks`): an epoch with deltas adds one to those of before, now and then it merges
them. Tasks go on for a while when their driver is dead, may be tried twice, and write again what storage has refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import CommittableDocument, FilePart, Manifest, StateHandle, located
from headrace.core.errors import ExternalError
from headrace.core.source_state import SourceState, SplitState
from headrace.spark.driver.manifest import STAGED_FILES
from headrace.spark.driver_machine.epoch import Epoch
from sim.drivers.outside import count
from sim.external.outside import SINK, SOURCE, TOPIC, Range
from sim.names import JOB
from sim.processes.chunks import chunk
from sim.replayed import Answer
from sim.world import Process

if TYPE_CHECKING:
    from sim.drivers.site import Site

STORAGE = "memory://job"
TRIES = 4
MERGED = 0.2
COUNT = "count"


@dataclass(frozen=True, slots=True)
class _File:
    """What is to be written. path: with its folder."""

    path: str
    data: bytes


class Tasks(Process):
    """The executors of one computation."""

    def __init__(self, site: Site, driver: Process, epoch: Epoch, answer: Answer) -> None:
        super().__init__(site.world, f"tasks of {driver.name}")
        self._site = site
        self._driver = driver
        self._epoch = epoch
        self._answer = answer
        self._positions = {split.partition: split.stop or 0 for splits in epoch.ranges.values() for split in splits}
        self._before = _positions(epoch.before)
        self._handles: list[StateHandle] = []
        self._committables: list[CommittableDocument] = []
        self._left = 0
        files = [file for subtask in range(site.story.parallelism) for file in self._files(subtask)]
        if self.world.happens(site.story.lost_tasks):
            self.after(self.world.between(1, 500), lambda: self._fail("executors are lost"))
        self._left = len(files)
        for file in files:
            self._write(file, TRIES)
        if not files:
            self.after(self.world.delay_ms(), self._done)

    # ---- files ---------------------------------------------------------------------------------------------------

    def _files(self, subtask: int) -> list[_File]:
        parallelism = self._site.story.parallelism
        own = {p: end for p, end in self._positions.items() if p % parallelism == subtask}
        rows = [(p, self._before.get(p, 0), end) for p, end in own.items() if self._before.get(p, 0) < end]
        files = self._state_files(subtask, own, rows)
        if rows:
            path = f"staged/{self._epoch.attempt}-{self._epoch.number}-{SINK}-{subtask}-0-{self._unique()}.parquet"
            file = _File(f"{STORAGE}/{path}", chunk(rows))
            files.append(file)
            part = _part(path, file.data)
            self._committables.append(
                CommittableDocument(
                    sink=SINK,
                    subtask=subtask,
                    epoch=self._epoch.number,
                    payload={STAGED_FILES: [part.model_dump()]},
                    rows=count(rows),
                )
            )
        if files and self.world.happens(self._site.story.strays):
            # a second try, whose report comes too late: its file has another name, and nobody names it
            again = self.world.chance.choice(files)
            files.append(_File(again.path.replace(".parquet", f"{self._unique()}.parquet"), again.data))
        return files

    def _state_files(self, subtask: int, own: dict[int, int], rows: Sequence[Range]) -> list[_File]:
        epoch = self._epoch
        if epoch.states is None:
            return []
        parts: list[FilePart] = []
        if epoch.deltas and epoch.before is not None and self.world.chance.random() > MERGED:
            parts = self._carried(subtask)
        else:
            rows = [(p, 0, end) for p, end in own.items() if end]
        files: list[_File] = []
        if rows:
            path = f"state/{epoch.attempt}-{epoch.number}-{COUNT}-{subtask}-{self._unique()}.parquet"
            files.append(_File(f"{epoch.states}/{path}", chunk(rows)))
            parts.append(_part(path, files[0].data))
        self._handles.append(_handle(subtask, parts))
        return files

    def _carried(self, subtask: int) -> list[FilePart]:
        assert self._epoch.before is not None, "there is state to go on with"
        return [
            part.model_copy(update={"path": part.path.removeprefix(f"{STORAGE}/")})
            for handle in self._epoch.before.states
            if handle.subtask == subtask
            for part in handle.files
        ]

    def _unique(self) -> str:
        return f"{self.world.chance.getrandbits(32):08x}"

    # ---- writing -------------------------------------------------------------------------------------------------

    def _write(self, file: _File, tries: int) -> None:
        call: Callable[[], object] = partial(self._site.objects.put_if_absent, file.path, file.data)
        self.after(
            self.world.between(1, 300),
            lambda: self._site.storage.call(self, call, lambda answer: self._on_written(file, tries - 1, answer)),
        )

    def _on_written(self, file: _File, tries: int, answer: object) -> None:
        if isinstance(answer, Exception):
            if tries:
                self._write(file, tries)
            else:
                self._fail("a task has failed too often")
            return
        self._left -= 1
        if not self._left:
            self._done()

    def _fail(self, reason: str) -> None:
        self.kill()
        error = ExternalError(reason, retry=self.world.chance.random() < 0.8)
        self._driver.deliver(lambda: self._answer(error))

    def _done(self) -> None:
        self.kill()
        result = self._manifest(), tuple(self._handles)
        self._driver.deliver(lambda: self._answer(result))

    def _manifest(self) -> Manifest:
        epoch, parallelism = self._epoch, self._site.story.parallelism
        splits = tuple(SplitState(TOPIC, p, end) for p, end in sorted(self._positions.items()))
        manifest = Manifest(
            kind="checkpoint",
            job=JOB,
            pipeline="flow",
            epoch=epoch.number,
            attempt=epoch.attempt,
            created_at_ms=self.world.now_ms,
            version="1.0",
            plan_hash="plan",
            max_parallelism=128,
            parallelism={COUNT: parallelism},
            nodes={SOURCE: "source", COUNT: "aggregate", SINK: "sink"},
            states=tuple(self._handles),
            sources={SOURCE: SourceState(splits)},
            splits=dict(epoch.ranges if epoch.splits is None else epoch.splits),
            committables=tuple(self._committables),
            final=epoch.last,
        )
        return manifest if epoch.deltas or epoch.states is None else located(manifest, epoch.states)


def _part(path: str, data: bytes) -> FilePart:
    return FilePart(path=path, row_groups=(0,), rows=1, bytes=len(data), checksum="")


def _handle(subtask: int, parts: Sequence[FilePart]) -> StateHandle:
    return StateHandle(
        node=COUNT,
        state="rows",
        kind="keyed",
        keys=(),
        subtask=subtask,
        first_group=0,
        last_group=0,
        columns={},
        files=tuple(parts),
    )


def _positions(manifest: Manifest | None) -> dict[int, int]:
    if manifest is None:
        return {}
    return {split.partition: split.position for split in manifest.sources[SOURCE].splits}
