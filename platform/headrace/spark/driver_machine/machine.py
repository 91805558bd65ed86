"""The state machine of a Spark driver: events in, one effect at a time out. Pure: no clock, no I/O, no randomness.

    ReadJournal ──finished──────────────────────────────────────────────────────────────────────> End
        │  │     ──given up──> Fail
        │  └─bounded, decided ─────────────┐
        v                                  │
     Resolve (if nothing is resolved)      │
        v                                  │
     Append attempt: from here on this driver owns the job. Another driver's record there ─> Fail, as at every Append
        v                                  │
     RemoveLeftovers of attempts before    │
        │  └─decided, not committed ───────┤
        v                                  v
 Discover ─> Compute ─> Append checkpoint ─> Publish ─> Append committed ─> Tidy ──last, or a savepoint──┐
      ^  └─nothing new─┐  the decision                                       │                           v
      └──── Wait <─────┴─────────────────────────────────────────────────────┘          WriteSavepoint ─> Sweep
              └─asked to stop, with a savepoint ─> Compute (reads nothing) ..                            v
                                                                              Append finished ─> End

A bounded driver (replay) has one epoch, and uses neither Discover nor Wait nor Tidy. A driver that was asked to stop,
and has no savepoint to take, ends after Wait.

Invariants between any two effects:

1. Before the attempt's record is written, nothing is deleted, and nothing is staged under the attempt's number.
2. Before the checkpoint's record is written, nothing is visible. Rows that it names are deleted only after the
   `committed` record.
3. A driver that finds another driver's record at its number stops, and does not delete its staged rows. It cannot know
   whether they are decided: its own `checkpoint` record may be in the journal although the response to its put was
   lost, and then the other driver publishes these rows. The other driver has read the journal, knows which rows are
   decided, and deletes the others (RemoveLeftovers).
4. After a transient failure (at most `failures_max` in a row) the driver reads the journal again, because the failed
   effect may have been performed: it never relies on its memory for a decision. All other failures end the driver, and
   the same command continues from the journal.
"""

from __future__ import annotations

from typing import assert_never

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import (
    AttemptRecord,
    CheckpointRecord,
    CommittedRecord,
    FinishedRecord,
    Record,
    StoppingRecord,
)
from headrace.checkpoint.journal.resolve import Resolution
from headrace.checkpoint.manifest import Formats, Manifest, located
from headrace.core.errors import ExternalError
from headrace.execution.split_assignment import without_replaced
from headrace.spark.driver_machine import effects as do
from headrace.spark.driver_machine import events as on
from headrace.spark.driver_machine.config import DriverConfig
from headrace.spark.driver_machine.effects import Step
from headrace.spark.driver_machine.epoch import Epoch, Splits, Work, standing


class ReplacedError(ExternalError):
    """Another driver has written to the job's journal. number: the record that proves it."""

    def __init__(self, job: str, number: int) -> None:
        super().__init__(
            f"another driver runs {job} now (record {number} of its journal is not this one's)",
            remedy="let that one go on, or end it and give the command again",
        )


class GivenUpError(ExternalError):
    """The job was ended by a user or another job: decided output that is not published never will be."""

    def __init__(self, job: str) -> None:
        super().__init__(
            f"{job} was given up, or another job goes on from its checkpoint",
            remedy="give the command again to see what it can go on from",
        )


NOT_YET_MS = 0
"""Time of a draft: the shell sets it when it appends."""


class DriverMachine:
    """One driver of one job. Call `begin` once, then `handle` with the event that answers the last effect."""

    def __init__(self, config: DriverConfig) -> None:
        self._config = config
        self._attempt = self._epoch = self._increments = self._failures = 0
        self._splits: Splits = {}
        self._formats: Formats = {}
        self._manifest: Manifest | None = config.begin
        self._begun_with: Manifest | None = None
        self._newest: CheckpointRecord | None = None
        """The record of the newest usable checkpoint."""
        self._uncommitted = False
        """Whether the newest checkpoint's rows may not be visible yet."""
        self._unfinished: str | None = None
        """URL of the newest checkpoint's savepoint."""
        self._finished: FinishedRecord | None = None
        self._taken_over = False
        """This driver owns the job, and has finished the decision that an earlier one left: from here on failures are
        retried."""
        self._asked = False
        self._leaving = False
        self._discovered = False
        """The epoch in progress is an increment, which is counted once it is committed."""
        self._target: str | None = None
        """URL of the savepoint that the epoch in progress fills."""

    def begin(self) -> Step:
        """Returns the first effect."""
        return Step(do.ReadJournal())

    def handle(self, event: on.Event) -> Step:  # noqa: PLR0911 - one line an event
        """Returns the next effect."""
        match event:
            case on.JournalRead(journal, found):
                return self._on_journal(journal, found)
            case on.Resolved(splits, formats):
                self._splits, self._formats = splits, formats
                return self._own()
            case on.RecordWritten(record):
                return self._on_record(record)
            case on.LeftoversRemoved():
                return self._settle()
            case on.Discovered(work):
                return self._wait() if work is None else self._compute(work)
            case on.Computed():
                return self._decide(event)
            case on.Published():
                assert self._newest is not None, "what is published is decided"
                return _append(CommittedRecord(at_ms=NOT_YET_MS, epoch=self._newest.manifest.epoch))
            case on.Tidied():
                return self._on_tidied()
            case on.SavepointWritten():
                return Step(do.Sweep(self._config.publish))
            case on.Swept():
                return self._record_end()
            case on.Woken(asked):
                return self._on_woken(asked=asked)
            case on.Replaced(number):
                return Step(do.Fail(ReplacedError(self._config.job, number)))
            case on.Failed(error):
                return self._on_failed(error)
            case _:
                assert_never(event)

    # ---- the journal, and the ownership of the job ---------------------------------------------------------------

    def _on_journal(self, journal: Journal, found: Resolution) -> Step:
        self._attempt, self._epoch = found.next_attempt, found.epoch
        self._newest, self._uncommitted = None, False
        if found.restore is not None:
            epoch = found.restore.epoch
            self._manifest = located(found.restore, self._config.storage)
            self._newest = next(each for each in reversed(journal.checkpoints) if each.manifest.epoch == epoch)
            self._uncommitted = found.commit_first is not None and found.commit_first.number == self._newest.number
        self._unfinished = None if found.unfinished is None else found.unfinished.savepoint
        # a driver writes only FINISHED: CANCELED is from a user's --give-up, or from another job that has claimed the
        # checkpoint
        if found.finished is not None and found.finished.state != "FINISHED":
            return Step(do.Fail(GivenUpError(self._config.job)))
        if found.finished is not None:
            self._finished = found.finished
            return self._end()
        if self._config.bounded and self._newest is not None:
            # no attempt record is needed: the only epoch is decided, and several drivers may publish it at the same
            # time
            said = "an earlier run has computed the results: they are published now"
            return _after(said, self._settle())
        # a replay resolves its splits again, because no earlier driver has decided anything; a followed job keeps the
        # splits that were resolved first
        self._splits, self._formats = {} if self._config.bounded else found.splits, found.formats
        if not self._splits:
            splits, formats = ({}, {}) if self._manifest is None else (self._manifest.splits, self._manifest.formats)
            return Step(do.Resolve(splits, found.formats or formats))
        return self._own()

    def _own(self) -> Step:
        """Appends the attempt's record. From it on, every earlier driver of the job is replaced."""
        config, newest = self._config, self._newest
        if self._manifest is not None:
            self._manifest = without_replaced(self._manifest, self._splits)
        return _append(
            AttemptRecord(
                at_ms=NOT_YET_MS,
                attempt=self._attempt,
                restored_epoch=None if newest is None else newest.manifest.epoch,
                savepoint=config.begin_url if newest is None else None,
                parallelism=config.parallelism,
                plan_hash=config.plan_hash,
                splits=dict(self._splits),
                formats=self._formats,
            )
        )

    def _settle(self) -> Step:
        """Publishes the newest checkpoint if it is not committed; otherwise ends or begins the next epoch."""
        if self._newest is None:
            return self._go_on()
        if self._uncommitted and self._config.publish:
            epoch = self._newest.manifest.epoch
            said = () if self._config.bounded else (f"epoch {epoch} was decided before: it is published now",)
            return Step(do.Publish(self._newest), said)
        return self._finish() if self._ends else self._go_on()

    def _go_on(self) -> Step:
        if not self._taken_over:
            self._taken_over, self._begun_with = True, self._manifest
        return self._next_epoch()

    # ---- epochs --------------------------------------------------------------------------------------------------

    def _next_epoch(self) -> Step:
        """Returns the first effect of the next epoch, or of the end."""
        config = self._config
        if config.bounded:
            states = {} if self._manifest is None else self._manifest.sources
            return self._compute(Work(self._splits, self._splits, states, frozenset(self._splits)))
        if not self._asked and self._increments != config.increments_max:
            return Step(do.Discover(self._splits, {} if self._manifest is None else self._manifest.sources))
        self._leaving = True
        if config.savepoint is None:
            return self._end()
        return self._hand_out()

    def _compute(self, work: Work) -> Step:
        """Computes the epoch of this work; for a bounded driver that is all input."""
        config, over = self._config, work.over
        target = config.new_savepoint(self._epoch + 1, self._attempt) if over else None
        self._splits, self._discovered, self._target = work.splits, True, target
        keeps = not config.bounded
        return Step(
            do.Compute(
                Epoch(
                    self._epoch + 1,
                    self._attempt,
                    work.ranges,
                    before=self._manifest,
                    states=target or (config.storage if keeps else None),
                    hand_over=not over or config.hands_over,
                    splits=work.splits,
                    sources=work.sources,
                    closed=frozenset() if over else work.ended,
                    deltas=keeps and target is None,
                    last=over,
                    formats=self._formats,
                )
            )
        )

    def _hand_out(self) -> Step:
        """Computes a savepoint at the newest checkpoint: an epoch that reads nothing and writes all state."""
        target = self._config.new_savepoint(self._epoch + 1, self._attempt)
        self._discovered, self._target = False, target
        return Step(
            do.Compute(
                Epoch(
                    self._epoch + 1,
                    self._attempt,
                    standing(self._splits, {} if self._manifest is None else self._manifest.sources),
                    before=self._manifest,
                    states=target,
                    hand_over=True,
                    splits=self._splits,
                    last=False,
                    formats=self._formats,
                )
            )
        )

    def _decide(self, computed: on.Computed) -> Step:
        target = self._target
        return _append(
            CheckpointRecord(
                at_ms=NOT_YET_MS,
                manifest=computed.manifest,
                savepoint=target,
                savepoint_states=() if target is None else computed.states,
                took_ms=None if self._config.bounded else computed.took_ms,
            )
        )

    def _on_record(self, record: Record) -> Step:
        match record:
            case AttemptRecord():
                # not before the attempt's record: until then an earlier driver may still decide these files
                return Step(do.RemoveLeftovers(self._attempt, self._unfinished))
            case CheckpointRecord():
                self._newest, self._uncommitted = record, True
                self._epoch = record.manifest.epoch
                self._manifest = located(record.manifest, self._config.storage)
                # the decision: from here on every later driver publishes this epoch, and none computes it again
                return Step(do.Publish(record)) if self._config.publish else self._finish()
            case CommittedRecord():
                return self._on_committed()
            case FinishedRecord():
                self._finished = record
                return self._end()
            case StoppingRecord():
                # a followed pipeline is stopped by a signal to its process, which is not recorded
                raise AssertionError("no driver writes that it is to stop")
            case _:
                assert_never(record)

    def _on_committed(self) -> Step:
        assert self._newest is not None, "what is committed is decided"
        self._uncommitted = False
        if self._config.bounded:
            return self._finish()
        return Step(do.Tidy(self._newest.manifest, self._config.retained))

    def _on_tidied(self) -> Step:
        assert self._newest is not None, "an epoch was tidied"
        manifest = self._newest.manifest
        said = f"epoch {manifest.epoch}: {sum(item.rows for item in manifest.committables):,} rows out"
        worked, self._discovered = self._discovered, False
        # counted here and not at the start: an increment that failed and was retried counts once
        self._increments += worked
        if self._ends:
            return _after(said, self._finish())
        return _after(said, self._wait() if worked else self._go_on())

    # ---- waiting, and failing ------------------------------------------------------------------------------------

    def _wait(self) -> Step:
        """Called when an increment is over, or when there was no work."""
        self._failures = 0
        if self._increments == self._config.increments_max:
            return self._next_epoch()
        return Step(do.Wait())

    def _on_woken(self, *, asked: bool) -> Step:
        self._asked = self._asked or asked
        self._leaving = self._asked
        if self._asked and self._config.savepoint is None:
            return self._end()
        # after a failure the journal is read again, because the failed effect may have been performed
        return Step(do.ReadJournal()) if self._failures else self._next_epoch()

    def _on_failed(self, error: Exception) -> Step:
        """After a transient failure, waits and continues from the journal, unless the driver is stopping."""
        # an error of the data or of the user would occur again
        passes = isinstance(error, ExternalError) and error.retry
        if not passes or not self._taken_over or self._leaving or self._failures == self._config.failures_max:
            return Step(do.Fail(error))
        self._failures += 1
        self._discovered = False
        said = f"{_message(error)}; tried again soon ({self._failures} of {self._config.failures_max})"
        return Step(do.Wait(), (said,))

    # ---- the end -------------------------------------------------------------------------------------------------

    @property
    def _ends(self) -> bool:
        """Whether nothing follows the newest checkpoint."""
        newest = self._newest
        return newest is not None and (self._config.bounded or newest.manifest.final or newest.savepoint is not None)

    def _finish(self) -> Step:
        assert self._newest is not None, "a job ends with a checkpoint"
        if self._newest.savepoint is not None:
            return Step(do.WriteSavepoint(self._newest, self._newest.savepoint))
        return Step(do.Sweep(self._config.publish))

    def _record_end(self) -> Step:
        assert self._newest is not None, "a job ends with a checkpoint"
        return _append(FinishedRecord(at_ms=NOT_YET_MS, state="FINISHED", savepoint=self._newest.savepoint))

    def _end(self) -> Step:
        begun_with = self._begun_with if self._taken_over else self._manifest
        return Step(
            do.End(
                newest=self._newest,
                manifest=self._manifest,
                begun_with=begun_with,
                epoch=self._epoch,
                increments=self._increments,
                finished=self._finished,
            )
        )


def _append(draft: Record) -> Step:
    return Step(do.Append(draft))


def _after(said: str, step: Step) -> Step:
    return Step(step.effect, (said, *step.said))


def _message(error: Exception) -> str:
    return error.message if isinstance(error, ExternalError) else str(error)
