"""What must hold of a driver's job, whatever fails: judged at every record, every visible row and every deletion.

1. Nobody decides but the owner: a checkpoint is of the newest attempt, follows the epoch before it, and that one is
   committed. Nothing follows the end.
2. No row is visible before its epoch is decided; every row once, in the order of the epochs; all of them at
   `committed`.
3. What is decided and not committed is not deleted, nor what the newest checkpoint or a decided savepoint names.
4. Nothing is deleted that the newest attempt has made and not decided on: it belongs to a driver that may still decide.
5. Behind its cleaning, an attempt finds nothing of earlier ones that no checkpoint needs; behind the last sweep no rows
   are staged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from headrace.checkpoint.job_folder.journal_store import parse_record
from headrace.checkpoint.journal.journal import own_files
from headrace.checkpoint.journal.records import (
    AttemptRecord,
    CheckpointRecord,
    CommittedRecord,
    FinishedRecord,
    Record,
    StoppingRecord,
)
from headrace.checkpoint.manifest import Manifest, StateHandle
from headrace.checkpoint.paths import MANIFEST, record_number, state_file
from headrace.spark.driver.publication import staged_files
from headrace.spark.driver_machine.effects import End
from sim.drivers.story import Story
from sim.external.outside import SOURCE, Range
from sim.processes.chunks import read_chunk, tiled
from sim.world import ViolationError, World

JOB_FOLDER = "memory://job/"
SAVED_FOLDER = "memory://saved/"
_STAGED = re.compile(r"staged/(\d+)-(\d+)-")


class Auditor:
    """Keeps all records that ever were, and all rows that are visible."""

    def __init__(self, world: World, story: Story, held: dict[str, bytes]) -> None:
        """held: the objects in storage, live."""
        self._world = world
        self._story = story
        self._held = held
        self.history: list[Record] = []
        self._checkpoints: list[CheckpointRecord] = []
        self._committed = 0
        self._attempt = 0
        self._attempt_number = 0
        self._recorded_ms = 0
        """When the newest record was put."""
        self._owned_ms = (0, 0)
        """When the record before the newest attempt's was put, and that one: the journal was read in between."""
        self._ends: dict[int, int] = {}
        """Partition -> rows that are visible."""
        self._written_ms: dict[str, int] = {}
        self._pruned_ms: dict[int, int] = {}
        """Number of a record -> when it was deleted."""

    @property
    def newest(self) -> CheckpointRecord | None:
        """The newest checkpoint."""
        return self._checkpoints[-1] if self._checkpoints else None

    @property
    def epoch(self) -> int:
        """The newest decided epoch, 0 before the first."""
        return 0 if self.newest is None else self.newest.manifest.epoch

    @property
    def is_finished(self) -> bool:
        """Whether the end is recorded."""
        return bool(self.history) and isinstance(self.history[-1], FinishedRecord)

    @property
    def is_given_up(self) -> bool:
        """Whether the job's user has ended it: then its rows are visible or not, and nothing is left to be done."""
        last = self.history[-1] if self.history else None
        return isinstance(last, FinishedRecord) and last.state == "CANCELED"

    @property
    def end(self) -> str:
        """How the job has ended, in a word or two."""
        if self.is_given_up:
            return "given up"
        return "finished" if self.is_finished else "stopped"

    @property
    def is_settled(self) -> bool:
        """Whether everything that is decided is committed."""
        return self._committed == self.epoch

    # ---- records -------------------------------------------------------------------------------------------------

    def written(self, path: str, data: bytes) -> None:
        """An object was put into storage."""
        self._written_ms[path] = self._world.now_ms
        number = record_number(path)
        if number is None:
            return
        record = parse_record(data, path)
        self._world.tell(f"journal: {number} {record.kind} by {record.writer}")
        if number <= len(self.history):
            return  # of a writer that slept: no history, and its writer is told so
        if number > len(self.history) + 1:
            raise ViolationError(f"record {number} is put, but the newest is {len(self.history)}")
        if self.is_finished:
            raise ViolationError(f"{record.kind} follows the end")
        self._judge(record)
        self.history.append(record)
        self._recorded_ms = self._world.now_ms

    def _judge(self, record: Record) -> None:
        match record:
            case AttemptRecord():
                self._judge_attempt(record)
                self._attempt, self._attempt_number = record.attempt, record.number
                self._owned_ms = (self._recorded_ms, self._world.now_ms)
            case CheckpointRecord():
                self._judge_checkpoint(record)
                self._checkpoints.append(record)
            case CommittedRecord(epoch=epoch):
                if epoch != self.epoch or not self._story.publish:
                    raise ViolationError(f"epoch {epoch} is said to be committed, but {self.epoch} is the newest")
                self._require_visible()
                self._committed = epoch
            case FinishedRecord():
                self._judge_end(record)
            case StoppingRecord():
                raise ViolationError("no driver writes that it is to stop")
            case _:
                assert_never(record)

    def _judge_attempt(self, record: AttemptRecord) -> None:
        if record.attempt <= self._attempt:
            raise ViolationError(f"attempt {record.attempt} follows attempt {self._attempt}")
        if record.restored_epoch != (self.epoch or None):
            raise ViolationError(
                f"attempt {record.attempt} restores {record.restored_epoch}, {self.epoch} is the newest"
            )
        if self._story.bounded and self.newest is not None:
            raise ViolationError("a replay that is decided on begins anew")

    def _judge_checkpoint(self, record: CheckpointRecord) -> None:
        manifest = record.manifest
        if manifest.attempt != self._attempt:
            raise ViolationError(f"attempt {manifest.attempt} completes an epoch, but {self._attempt} is the newest")
        if manifest.epoch != self.epoch + 1 or not self.is_settled:
            raise ViolationError(f"epoch {manifest.epoch} follows {self.epoch}; {self._committed} is committed")
        self._require_rows(manifest)
        self._require_states(record)

    def _require_rows(self, manifest: Manifest) -> None:
        """The staged rows are those between the epoch before and this one."""
        before, rows = _positions(self.newest), self._rows(manifest)
        wanted = {p: (before.get(p, 0), end) for p, end in _positions_of(manifest).items() if before.get(p, 0) < end}
        if {p: (first, behind) for p, first, behind in rows} != wanted or len(rows) != len(wanted):
            raise ViolationError(f"epoch {manifest.epoch} has staged {rows}, but read {wanted}")

    def _rows(self, manifest: Manifest) -> list[Range]:
        return [row for path in staged_files(manifest) for row in read_chunk(self._held, JOB_FOLDER + path)]

    def _require_states(self, record: CheckpointRecord) -> None:
        """All rows up to where it was read are in its state, where it keeps any."""
        if self._story.bounded and record.savepoint is None:
            return
        self._require_whole(record.manifest, record.manifest.states, JOB_FOLDER)
        if record.savepoint is not None:
            self._require_whole(record.manifest, record.savepoint_states, f"{record.savepoint}/")

    def _require_whole(self, manifest: Manifest, states: Sequence[StateHandle], folder: str) -> None:
        ranges: dict[int, list[tuple[int, int]]] = {}
        for part in (part for handle in states for part in handle.files):
            for partition, first, behind in read_chunk(self._held, _joined(folder, part.path)):
                ranges.setdefault(partition, []).append((first, behind))
        rows = {partition: tiled(partition, own) for partition, own in ranges.items()}
        wanted = {p: end for p, end in _positions_of(manifest).items() if end}
        if rows != wanted:
            raise ViolationError(f"epoch {manifest.epoch} holds {rows}, but was read up to {wanted}")

    def _judge_end(self, record: FinishedRecord) -> None:
        newest = self.newest
        if record.state == "CANCELED":
            return
        if newest is None:
            raise ViolationError(f"the job ends as {record.state}, without an epoch")
        if self._story.publish and not self.is_settled:
            raise ViolationError(f"the job ends, but epoch {self.epoch} is not committed")
        if record.savepoint != newest.savepoint:
            raise ViolationError(f"the job ends with {record.savepoint}, but {newest.savepoint} is decided")
        if not (self._story.bounded or newest.manifest.final or newest.savepoint is not None):
            raise ViolationError("the job ends before its sources")
        if newest.savepoint is not None and f"{newest.savepoint}/{MANIFEST}" not in self._held:
            raise ViolationError(f"the job ends, but {newest.savepoint} has no manifest")

    # ---- rows ----------------------------------------------------------------------------------------------------

    def visible(self, epoch: int, rows: Sequence[Range]) -> None:
        """Rows of an epoch become visible."""
        decided = next((each for each in self._checkpoints if each.manifest.epoch == epoch), None)
        if decided is None or not self._story.publish:
            raise ViolationError(f"{rows} of epoch {epoch} are visible, but it is not decided on")
        ends = _positions_of(decided.manifest)
        for partition, first, behind in rows:
            end = self._ends.get(partition, 0)
            if first != end or behind > ends[partition]:
                raise ViolationError(
                    f"{first}..{behind} of partition {partition} are visible by epoch {epoch}, behind {end}"
                )
            self._ends[partition] = behind

    def _require_visible(self) -> None:
        wanted = {p: end for p, end in _positions(self.newest).items() if end}
        if self._ends != wanted:
            raise ViolationError(f"{self._ends} is visible, but epoch {self.epoch} was read up to {wanted}")

    # ---- what is deleted -----------------------------------------------------------------------------------------

    def deleted(self, path: str) -> None:
        """An object is about to be deleted."""
        self._world.tell(f"deleted: {path}")
        number = record_number(path)
        if number is not None:
            self._pruned_ms[number] = self._world.now_ms
            if number == self._attempt_number or (self.newest is not None and number >= self.newest.number):
                raise ViolationError(f"{path} is deleted, and needed to know what is newest")
        elif self.is_given_up:
            pass
        elif path in self._needed():
            raise ViolationError(f"{path} is deleted, and needed by epoch {self.epoch}")
        elif (made := _made_by(path)) is not None and made[0] >= self._attempt and made[1] > self.epoch:
            raise ViolationError(f"{path} is deleted while its attempt is under way")

    def _needed(self) -> set[str]:
        newest = self.newest
        if newest is None:
            return set()
        paths = {JOB_FOLDER + path for path in own_files(newest.manifest)} | self._staged()
        if newest.savepoint is not None:
            own = (part.path for handle in newest.savepoint_states for part in handle.files)
            paths |= {f"{newest.savepoint}/{path}" for path in (*own, MANIFEST)}
        return paths

    def _staged(self) -> set[str]:
        """Staged files that are decided on and not committed."""
        newest = self.newest
        if newest is None or self.is_settled:
            return set()
        return {JOB_FOLDER + path for path in staged_files(newest.manifest)}

    def cleaned(self, attempt: int, read_ms: int, begun_ms: int) -> None:
        """A driver is told that nothing of earlier attempts is left.

        read_ms    when it began to read the journal; begun_ms: when it began to delete
        """
        if attempt == self._attempt:  # else it was replaced while it deleted: another one does it
            self._require_clean(read_ms, begun_ms)

    def _require_clean(self, read_ms: int, begun_ms: int) -> None:
        """Nothing is there of attempts before the newest that was written before `begun_ms`, but what is needed: by
        records that were there at `read_ms`."""
        kept = [each for each in self._checkpoints if self._pruned_ms.get(each.number, read_ms) >= read_ms]
        needed = {JOB_FOLDER + path for each in kept for path in own_files(each.manifest)} | self._staged()
        savepoint = None if self.newest is None else self.newest.savepoint
        for path in self._held:
            made = _made_by(path)
            if made is None or made[0] >= self._attempt or path in needed or self._written_ms[path] >= begun_ms:
                continue
            if savepoint is None or not path.startswith(savepoint):
                raise ViolationError(f"{path} is left behind")

    def saved(self, begun_ms: int) -> None:
        """A driver is told that the newest checkpoint's savepoint is complete, and holds nothing else."""
        assert self.newest is not None, "a savepoint is decided on"
        needed, folder = self._needed(), f"{self.newest.savepoint}/"
        for path in self._held:
            if path.startswith(folder) and path not in needed and self._written_ms[path] < begun_ms:
                raise ViolationError(f"{path} is left behind")

    def swept(self, begun_ms: int) -> None:
        """A driver is told that no rows are staged any more."""
        staged = [path for path in self._held if _STAGED.search(path) and self._written_ms[path] < begun_ms]
        if staged and self._story.publish:
            raise ViolationError(f"{staged[0]} is left behind")

    # ---- the end -------------------------------------------------------------------------------------------------

    def ended(self, driver: str, end: End) -> None:
        """A driver says that it is done."""
        if end.finished is not None and end.finished.state != "FINISHED":
            raise ViolationError(f"{driver} says that the job is finished, but it was given up")
        if end.finished is not None and self.history[-1] != end.finished:
            raise ViolationError(
                f"{driver} says that the job is finished, but its journal ends with {self.history[-1]}"
            )

    def over(self, stops: Sequence[int | None]) -> None:
        """No driver acts any more, and none has to."""
        newest = self.newest
        if newest is None or self.is_given_up:
            return
        self._require_states(newest)
        if not self.is_finished:
            return  # stopped, and perhaps decided once more by a call that was late: the same command goes on
        self._require_clean(*self._owned_ms)
        if self._story.publish:
            self._require_visible()
        else:
            self._require_rows_of(newest.manifest)
        if newest.manifest.final and not self._story.bounded and _positions(newest) != dict(enumerate(stops)):
            raise ViolationError(f"the last epoch was read up to {_positions(newest)}, not to {stops}")

    def _require_rows_of(self, manifest: Manifest) -> None:
        """Rows that are not published stay staged."""
        rows = {p: behind for p, _, behind in self._rows(manifest)}
        wanted = {p: end for p, end in _positions_of(manifest).items() if end}
        if rows != wanted:
            raise ViolationError(f"{rows} are staged at the end, {wanted} were read")


def _positions(record: CheckpointRecord | None) -> dict[int, int]:
    return {} if record is None else _positions_of(record.manifest)


def _positions_of(manifest: Manifest) -> dict[int, int]:
    return {split.partition: split.position for split in manifest.sources[SOURCE].splits}


def _joined(folder: str, path: str) -> str:
    return path if "://" in path else folder + path


def _made_by(path: str) -> tuple[int, int] | None:
    """The attempt and epoch of a file of state or staged rows; None: it is neither."""
    state, staged = state_file(path), _STAGED.search(path)
    if state is not None:
        return state.attempt, state.epoch
    return None if staged is None else (int(staged[1]), int(staged[2]))
