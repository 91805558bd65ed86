"""Performs the effects of a driver's machine with the stores and an engine. Makes no decisions.

    drive: step ─> perform(effect) ─> event ─> machine ─> step ─> .. ─> End, or Fail: its error is raised

If an effect raises an `Exception` of any kind, the event is `Failed`, and the machine decides whether to retry.
Exceptions that end the process (`KeyboardInterrupt`, `SystemExit`) are not caught.

Leftovers are files of the job's earlier drivers that no checkpoint names. A driver deletes them once it owns the job:
when its `attempt` record is written, no earlier driver can decide anything any more. But this driver may have been
suspended for minutes since, and another one may own the job by now, and write files in the same folder. So this driver
deletes only files of attempts before its own, which it recognises by the attempt's number in the file name. A later
driver neither writes nor needs such a file, unless a checkpoint names it, and those are kept. The names of temporary
files contain no number, and their writes may be in progress, so they are deleted only when they are old.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.job_folder.orphans import GRACE_MS
from headrace.checkpoint.journal.journal import Journal, JournalReplaced, Settled, Written, own_files
from headrace.checkpoint.journal.records import CheckpointRecord, Record
from headrace.checkpoint.journal.resolve import resolve
from headrace.checkpoint.manifest import Formats, Manifest, StateHandle
from headrace.checkpoint.paths import MANIFEST, STAGED, STATE
from headrace.checkpoint.savepoints.damaged_epochs import damaged_epochs
from headrace.checkpoint.savepoints.savepoint import finish_savepoint
from headrace.checkpoint.stores.opening import OpenFolder, open_folder
from headrace.checkpoint.stores.store import ObjectStore
from headrace.core.clock import Clock
from headrace.core.errors import ExternalError
from headrace.core.source_state import SourceState
from headrace.execution.manifests import savepoint_of
from headrace.spark.driver.publication import Say, staged_files
from headrace.spark.driver_machine import effects as do
from headrace.spark.driver_machine import events as on
from headrace.spark.driver_machine.config import DriverConfig, savepoint_attempt
from headrace.spark.driver_machine.epoch import Epoch, Splits, Work
from headrace.spark.driver_machine.machine import DriverMachine

Pause = Callable[[int], bool]
"""Waits for a number of ms, or until a stop is requested. Returns whether one was."""
_OF_ATTEMPT = re.compile(rf"(?:{STAGED}|{STATE})(\d+)-")


class Sources(Protocol):
    """The sources of a driver. Blocking. Raises UserError, ExternalError."""

    def resolve(self, known: Splits) -> Splits:
        """Checks the sinks, and returns the splits of each source, with start and stop. known: splits of the job's
        origin."""
        ...

    def discover(self, splits: Splits, states: Mapping[str, SourceState]) -> Work | None:
        """Returns the work beyond the positions in `states` that the sources have now; None: no work."""
        ...


class Engine(Protocol):
    """Computes epochs. Blocking."""

    def run(self, epoch: Epoch) -> tuple[Manifest, tuple[StateHandle, ...]]:
        """Computes an epoch. Returns its manifest, and its states with paths relative to their folder. Raises
        UserError, DataError, ExternalError.
        """
        ...


class Publishing(Protocol):
    """Publishes rows to the sinks. Blocking."""

    def publish(self, record: CheckpointRecord) -> None:
        """Publishes every row of the decided epoch once, even if an earlier call published some of them. Raises
        UserError, ExternalError.
        """
        ...


@dataclass(frozen=True, slots=True)
class DriverParts:
    """The parts that a driver works with.

    store         the job's folder
    writer        random token of this driver, for journal records
    pause         the wait between two increments
    interval_ms   time between the starts of two increments, if the first one is over by then
    open_folder   opens the folder of a savepoint
    prepare       prepares the formats, by what they had prepared before. Blocking. Raises UserError, ExternalError
    """

    store: ObjectStore
    writer: str
    sources: Sources
    engine: Engine
    publishing: Publishing
    clock: Clock
    pause: Pause = lambda _: False
    interval_ms: int = 0
    open_folder: OpenFolder = open_folder
    prepare: Callable[[Formats], Formats] = lambda formats: formats


class DriverShell:
    """Performs effects, one at a time. Used by one thread."""

    def __init__(self, config: DriverConfig, parts: DriverParts) -> None:
        self._config = config
        self._parts = parts
        self._store = parts.store
        self._journal = JournalStore(parts.store, "", parts.writer)
        self._begun_ms: int | None = None
        """When this increment began, by the monotonic clock."""

    def perform(self, effect: do.Performed) -> on.Event:
        """Returns the event that answers the effect."""
        try:
            return self._performed(effect)
        except Exception as error:
            return on.Failed(error)

    def _performed(self, effect: do.Performed) -> on.Event:  # noqa: PLR0911 - one line an effect
        parts = self._parts
        match effect:
            case do.ReadJournal():
                return self._read()
            case do.Resolve(known, formats):
                prepared = parts.prepare(formats)
                return on.Resolved(parts.sources.resolve(known), prepared)
            case do.Append(draft):
                return self._append(draft)
            case do.RemoveLeftovers(attempt, decided):
                self._remove_leftovers(attempt, decided)
                return on.LeftoversRemoved()
            case do.Discover(splits, states):
                return self._discover(splits, states)
            case do.Compute(epoch):
                return self._compute(epoch)
            case do.Publish(record):
                parts.publishing.publish(record)
                return on.Published()
            case do.Tidy(manifest, retained):
                # The staged rows are deleted first: the epoch is committed, so they are not needed. Pruning after that
                # may fail, and is repeated after the next epoch.
                self._store.delete(list(staged_files(manifest)))
                self._journal.prune(retained)
                return on.Tidied()
            case do.WriteSavepoint(record, folder):
                self._write_savepoint(record, folder)
                return on.SavepointWritten()
            case do.Sweep(staged):
                self._sweep(staged=staged)
                return on.Swept()
            case do.Wait():
                return on.Woken(self._wait())
            case _:
                assert_never(effect)

    def _read(self) -> on.Event:
        journal = self._journal.load()
        return on.JournalRead(journal, resolve(journal, damaged_epochs(self._store, journal)))

    def _append(self, draft: Record) -> on.Event:
        result = self._journal.append(draft.model_copy(update={"at_ms": self._parts.clock.now_ms()}))
        match result:
            case Written(record):
                return on.RecordWritten(record)
            case Settled(record):
                # an earlier put, whose response was lost, had succeeded: the machine must read the journal again
                return on.Failed(
                    ExternalError(f"record {record.number} of the journal was already written", retry=True)
                )
            case JournalReplaced(number):
                return on.Replaced(number)
            case _:
                assert_never(result)

    def _remove_leftovers(self, attempt: int, decided: str | None) -> None:
        config = self._config
        remove_files(self._store, self._journal.journal, attempt, self._parts.clock.now_ms())
        if config.savepoint is not None:
            kept = [] if decided is None else [decided]
            remove_savepoints(self._parts.open_folder(config.savepoint), config.job, attempt, kept)

    def _discover(self, splits: Splits, states: Mapping[str, SourceState]) -> on.Event:
        begun_ms = self._parts.clock.monotonic_ms()
        work = self._parts.sources.discover(splits, states)
        # the first interval starts at the first discovery; each later one starts at the end of a wait
        if self._begun_ms is None:
            self._begun_ms = begun_ms
        return on.Discovered(work)

    def _compute(self, epoch: Epoch) -> on.Event:
        begun_ms = self._parts.clock.monotonic_ms()
        manifest, states = self._parts.engine.run(epoch)
        return on.Computed(manifest, states, self._parts.clock.monotonic_ms() - begun_ms)

    def _write_savepoint(self, record: CheckpointRecord, folder: str) -> None:
        store = self._parts.open_folder(folder)
        finish_savepoint(savepoint_of(record.manifest, record.savepoint_states), store)
        remove_strays(store, record.savepoint_states)

    def _sweep(self, *, staged: bool) -> None:
        if staged:
            self._store.delete(self._store.list(STAGED))
        # temporary files of tasks that were killed while they wrote
        self._store.delete([each.path for each in self._store.leftovers()])

    def _wait(self) -> bool:
        clock = self._parts.clock
        took_ms = 0 if self._begun_ms is None else clock.monotonic_ms() - self._begun_ms
        asked = self._parts.pause(max(0, self._parts.interval_ms - took_ms))
        self._begun_ms = clock.monotonic_ms()
        return asked


def drive(config: DriverConfig, parts: DriverParts, say: Say) -> do.End:
    """Runs a driver to its end. Blocking. Raises the error with which the machine fails: UserError, DataError,
    ExternalError."""
    machine, shell = DriverMachine(config), DriverShell(config, parts)
    step = machine.begin()
    while True:
        for line in step.said:
            say(line)
        match step.effect:
            case do.End():
                return step.effect
            case do.Fail(error):
                raise error
            case effect:
                step = machine.handle(shell.perform(effect))


def remove_files(store: ObjectStore, journal: Journal, attempt: int, now_ms: int) -> None:
    """Deletes files of attempts before `attempt` that are neither state of a checkpoint in the journal nor staged rows
    that are decided and not committed. store: the job's folder.
    """
    named = {path for record in journal.checkpoints for path in own_files(record.manifest)}
    if journal.uncommitted is not None:
        named |= set(staged_files(journal.uncommitted.manifest))
    # `named` is as old as this driver's read of the journal, and may lack files of later attempts: `_before` excludes
    # those
    store.delete(path for path in _before(store, attempt) if path not in named)
    store.delete([each.path for each in store.leftovers() if each.modified_ms <= now_ms - GRACE_MS])


def remove_savepoints(folder: ObjectStore, job: str, attempt: int, decided: Iterable[str]) -> None:
    """Deletes savepoints of attempts before `attempt`, except the decided ones. decided: URLs of savepoints that a
    record names.
    """
    kept = {url.rstrip("/").rpartition("/")[2] for url in decided}
    folder.delete(
        path
        for path in folder.list(f"savepoint-{job}-")
        if (made_by := savepoint_attempt(job, path)) is not None
        and made_by < attempt
        and path.partition("/")[0] not in kept
    )


def remove_strays(savepoint: ObjectStore, states: Sequence[StateHandle]) -> None:
    """Deletes files in a complete savepoint that its manifest does not name: failed task attempts wrote them."""
    named = {part.path for handle in states for part in handle.files} | {MANIFEST}
    savepoint.delete([path for path in savepoint.list("") if path not in named])
    savepoint.delete([each.path for each in savepoint.leftovers()])


def _before(store: ObjectStore, attempt: int) -> list[str]:
    there = [*store.list(STAGED), *store.list(STATE)]
    return [path for path in there if (found := _OF_ATTEMPT.match(path)) and int(found[1]) < attempt]
