"""Watches the storage and the outside world, and knows what must never be: told of every object when it is written.

At each record: attempts and epochs only grow; only the newest attempt completes epochs, and only when the one before is
committed; what is restored is the newest complete epoch, and whole; what is called committed is visible, exactly once.
"""

from __future__ import annotations

from typing import assert_never

from headrace.checkpoint.job_folder.journal_store import parse_record
from headrace.checkpoint.journal.records import (
    AttemptRecord,
    CheckpointRecord,
    CommittedRecord,
    FinishedRecord,
    Record,
    StoppingRecord,
)
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.paths import record_number
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.job_state import JobState
from sim.audit.poison import PoisonAuditor
from sim.audit.transactions import TransactionAuditor
from sim.external.outside import SOURCE, Appended, Ledger, Source
from sim.processes.chunks import read_chunk, tiled
from sim.world import ViolationError, World

_OUTPUT_WORDS = (
    "visible in part",
    "did not confirm that its output is visible",
    "not known whether all output",
    "was given up outside",
)
"""How people are told that output is not what it should be."""


class Auditor:
    """Keeps all records that ever were."""

    def __init__(
        self,
        world: World,
        ledger: Ledger | None,
        appended: Appended,
        source: Source,
        held: dict[str, bytes],
        poison: PoisonAuditor,
    ) -> None:
        """`held`: the objects in storage, live; `ledger`: where the job's sink commits."""
        self._world = world
        self._ledger = ledger
        self._appended = appended
        self._source = source
        self.history: list[Record] = []
        self.live: list[CheckpointRecord] = []
        """Complete epochs that were not given up, ascending: an attempt from an earlier one gives up those above."""
        self.committed_epochs: set[int] = set()
        self.attempt = 0
        """The newest."""
        self._held = held
        self.transactions: TransactionAuditor | None = None
        """Where the sink commits by transactions."""
        self.poison = poison
        self.ended_in_order = False
        """The job has FINISHED while its slots were there."""
        self.ended_early = False
        """A stop has given up its last checkpoint."""
        self.notes: set[str] = set()
        """What coordinators have told people of failures."""
        self.fenced_ms: dict[int, int] = {}
        """Attempt -> when the last fence of everything before it began."""

    # ---- what was written ----------------------------------------------------------------------------------------

    def written(self, path: str, data: bytes) -> None:
        """An object was put into storage."""
        number = record_number(path)
        if number is None:
            return
        record = parse_record(data, path)
        self._world.tell(f"journal: {number} {record.kind} by {record.writer} {_about(record)}")
        if number <= len(self.history):
            return  # of a writer that slept: no history, and its writer is told so
        if number > len(self.history) + 1:
            raise ViolationError(f"record {number} is put, but the newest is {len(self.history)}")
        self._judge(record)
        self._remember(record)

    def _judge(self, record: Record) -> None:
        last = self.history[-1] if self.history else None
        if isinstance(last, FinishedRecord) and not isinstance(record, FinishedRecord):
            raise ViolationError(f"{record.kind} follows the end")
        match record:
            case AttemptRecord():
                self._judge_attempt(record)
            case CheckpointRecord():
                self._judge_checkpoint(record)
            case CommittedRecord():
                self._judge_committed(record)
            case FinishedRecord():
                if isinstance(last, FinishedRecord) and last.state != record.state:
                    raise ViolationError(f"the job ended as {last.state}, and then as {record.state}")
            case StoppingRecord():
                pass
            case _:
                assert_never(record)

    def _judge_attempt(self, record: AttemptRecord) -> None:
        if record.attempt <= self.attempt:
            raise ViolationError(f"attempt {record.attempt} follows attempt {self.attempt}")
        newest = self.checkpoint
        if newest is not None and self.transactions is not None and self.transactions.may_go_back(newest):
            newest = self.live[-2] if len(self.live) > 1 else None
        epoch = None if newest is None else newest.manifest.epoch
        if record.restored_epoch != epoch:
            raise ViolationError(
                f"attempt {record.attempt} restores {record.restored_epoch}, but {epoch} is the newest"
            )
        if newest is not None:
            self._require_committed(newest)
            self._require_whole(newest.manifest)

    def _judge_checkpoint(self, record: CheckpointRecord) -> None:
        manifest = record.manifest
        if manifest.attempt != self.attempt:
            raise ViolationError(f"attempt {manifest.attempt} completes an epoch, but {self.attempt} is the newest")
        before = self.checkpoint
        if before is not None:
            if manifest.epoch <= before.manifest.epoch:
                raise ViolationError(f"epoch {manifest.epoch} follows epoch {before.manifest.epoch}")
            self._require_committed(before)
        if self.transactions is not None:
            self.transactions.decides(record)
        self._require_no_stop_before(manifest)
        self._require_whole(manifest)
        if self._ledger is None:
            for partition, position in positions(manifest).items():
                if not _covers(self._appended.ranges.get(partition, []), position):
                    raise ViolationError(
                        f"epoch {manifest.epoch} holds rows of partition {partition} that are not written"
                    )

    def _require_no_stop_before(self, manifest: Manifest) -> None:
        """An attempt that began when a stop was recorded takes one epoch, and that is the last."""
        begun = next(each.number for each in reversed(self.history) if isinstance(each, AttemptRecord))
        asked = any(isinstance(each, StoppingRecord) and each.number < begun for each in self.history)
        if asked and self.checkpoint is not None and self.checkpoint.number > begun:
            raise ViolationError(f"epoch {manifest.epoch} is taken though the job was to stop")

    def _judge_committed(self, record: CommittedRecord) -> None:
        newest = self.checkpoint
        if newest is None or newest.manifest.epoch != record.epoch:
            raise ViolationError(f"epoch {record.epoch} is said to be committed, but it is not the newest")
        if self._ledger is None:
            return
        if self.transactions is None:
            self._ledger.require_committed(newest.manifest.committables)
        self._require_exact(newest.manifest)
        if self.transactions is not None:
            self.transactions.committed(newest)

    def _require_exact(self, manifest: Manifest) -> None:
        assert self._ledger is not None, "there is one"
        for partition, position in positions(manifest).items():
            wanted = [(0, position)] if position else []
            found = self._ledger.ranges.get(partition, [])
            if found != wanted:
                raise ViolationError(
                    f"after epoch {manifest.epoch}, {found} of partition {partition} is visible: {wanted}"
                )

    def _require_committed(self, checkpoint: CheckpointRecord) -> None:
        epoch = checkpoint.manifest.epoch
        if epoch not in self.committed_epochs:
            raise ViolationError(f"epoch {epoch} is gone on from, but is not committed")

    def _require_whole(self, manifest: Manifest) -> None:
        if len(manifest.states) != manifest.parallelism["count"]:
            raise ViolationError(f"epoch {manifest.epoch} has the states of {len(manifest.states)} subtasks")
        held: dict[int, list[tuple[int, int]]] = {}
        for handle in manifest.states:
            for part in handle.files:
                for partition, first, behind in read_chunk(self._held, part.path, part.row_groups):
                    held.setdefault(partition, []).append((first, behind))
        rows = {partition: tiled(partition, ranges) for partition, ranges in held.items()}
        if rows != positions(manifest):
            raise ViolationError(f"epoch {manifest.epoch} holds {rows}, but was read up to {positions(manifest)}")

    # ---- what coordinators do ------------------------------------------------------------------------------------

    def deployed(self, wanted: do.DeploySlots) -> None:
        """A coordinator deploys an attempt: its record stands, and it restores what the record says."""
        found = [each for each in self.history if isinstance(each, AttemptRecord) and each.attempt == wanted.attempt]
        epoch = None if wanted.restore is None else wanted.restore.epoch
        if len(found) != 1 or found[0].restored_epoch != epoch:
            raise ViolationError(f"attempt {wanted.attempt} is deployed from {epoch}, but its record is {found}")
        if self.transactions is not None:
            self.transactions.deployed(found[0])

    def fenced(self, attempt: int, begun_ms: int) -> None:
        """A coordinator was told that everything before an attempt is fenced, or everything where the job is over.

        begun_ms: when the fence began. It asks once what is open: a coordinator that does not know yet that the job is
        over may deploy meanwhile, and a writer of that attempt may begin a transaction that no epoch can ever decide.
        """
        self.fenced_ms[attempt] = begun_ms

    def answered(self, event: on.Event, path: str | None, note: str | None = None) -> None:
        """A user was told that it is done. note: with which reservation."""
        match event:
            case on.SavepointAsked(_, folder):
                if path != folder:
                    raise ViolationError(f"a savepoint in {folder} was asked for, {path} is handed out")
                self._require_savepoint(folder)
            case on.StopAsked() if note is not None:
                if not self.ended_early:
                    raise ViolationError(f"a stop took its last checkpoint, and its user hears: {note}")
            case on.StopAsked():
                if not any(isinstance(each, FinishedRecord) and each.state == "FINISHED" for each in self.history):
                    raise ViolationError("a stop is answered, but the end is not recorded")
                if path is not None:
                    self._require_savepoint(path)
            case _:
                pass

    def _require_savepoint(self, folder: str) -> None:
        data = self._held.get(f"{folder}/manifest.json")
        if data is None:
            raise ViolationError(f"savepoint {folder} is handed out, but has no manifest")
        manifest = Manifest.model_validate_json(data)
        self._require_whole(manifest)
        own = [each for each in self.history if isinstance(each, CheckpointRecord) and each.savepoint == folder]
        if manifest.committables or manifest.kind != "savepoint" or len(own) != 1:
            raise ViolationError(f"savepoint {folder} is not what its record says")
        self._require_committed(own[0])

    def require_all_known(self) -> None:
        """A job that has run in peace for a while reads every partition."""
        read = {} if self.checkpoint is None else positions(self.checkpoint.manifest)
        forgotten = [partition for partition in range(len(self._source.stops)) if partition not in read]
        if forgotten:
            raise ViolationError(f"partitions {forgotten} are not read")

    # ---- the end -------------------------------------------------------------------------------------------------

    def ended(self, state: JobState) -> None:
        """The job is over for good: what is visible is what its newest epoch says."""
        newest = self.checkpoint
        if self.transactions is not None:
            fenced_ms = self.fenced_ms.get(self.attempt)
            self.transactions.require_closed(fenced_ms, in_order=self.ended_in_order)
            if newest is not None and self.transactions.mixed(newest):
                self._require_choice(state)
                return
        if state is JobState.FINISHED:
            assert self.history, "an end is recorded"
            last = self.history[-1]
            if not isinstance(last, FinishedRecord) or last.state != "FINISHED" or newest is None:
                raise ViolationError(f"the job has FINISHED, but its journal ends with {last.kind}")
            if self._ledger is not None:
                self._require_exact(newest.manifest)
            if not self.ended_early and not any(isinstance(each, StoppingRecord) for each in self.history):
                self._require_all_read(newest.manifest)
        elif self._ledger is not None and newest is not None:
            self._require_prefix(newest.manifest)

    def _require_choice(self, state: JobState) -> None:
        """Rows come twice or never: that is the user's to know and to decide."""
        if state is JobState.FINISHED:
            raise ViolationError("the newest epoch is visible in part, but the job has FINISHED")
        last = self.history[-1]
        said = {*self.notes, *([last.error or ""] if isinstance(last, FinishedRecord) else [])}
        if not any(words in text for text in said for words in _OUTPUT_WORDS):
            raise ViolationError(f"the newest epoch is visible in part, and the job is {state.value} without a word")

    def _require_all_read(self, manifest: Manifest) -> None:
        read = positions(manifest)
        for partition, stop in enumerate(self._source.stops):
            if read.get(partition) != stop:
                raise ViolationError(f"partition {partition} was read up to {read.get(partition)}, not to {stop}")

    def _require_prefix(self, manifest: Manifest) -> None:
        """The newest epoch may be decided but not committed: then some of it is visible."""
        assert self._ledger is not None, "there is one"
        for partition, ranges in self._ledger.ranges.items():
            position = positions(manifest).get(partition, 0)
            if len(ranges) > 1 or ranges[0][0] != 0 or ranges[0][1] > position:
                raise ViolationError(
                    f"{ranges} of partition {partition} is visible, epoch {manifest.epoch}: {position}"
                )

    # ---- looks ---------------------------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> CheckpointRecord | None:
        """The newest complete one that was not given up."""
        return self.live[-1] if self.live else None

    def _remember(self, record: Record) -> None:
        self.history.append(record)
        match record:
            case CheckpointRecord():
                self.live.append(record)
                self.poison.completed(positions(record.manifest))
            case AttemptRecord():
                self.attempt = max(self.attempt, record.attempt)
                self.live = [each for each in self.live if each.manifest.epoch <= (record.restored_epoch or 0)]
                begun = {} if self.checkpoint is None else positions(self.checkpoint.manifest)
                self.poison.began(record.attempt, record.restored_epoch, begun)
            case FinishedRecord():
                self.poison.ended(record.writer, record.error or "")
            case CommittedRecord(epoch=epoch):
                self.committed_epochs.add(epoch)
            case _:
                pass


def positions(manifest: Manifest) -> dict[int, int]:
    """Partition -> up to where it was read."""
    return {split.partition: split.position for split in manifest.sources[SOURCE].splits}


def _covers(ranges: list[tuple[int, int]], position: int) -> bool:
    return position == 0 or (bool(ranges) and ranges[0][0] == 0 and ranges[0][1] >= position)


def _about(record: Record) -> str:
    match record:
        case AttemptRecord():
            return f"{record.attempt} from {record.restored_epoch}"
        case CheckpointRecord():
            return f"{record.manifest.epoch} of attempt {record.manifest.attempt} {positions(record.manifest)}"
        case CommittedRecord():
            return str(record.epoch)
        case StoppingRecord():
            return f"{record.savepoint}"
        case FinishedRecord():
            return record.state
        case _:
            assert_never(record)
