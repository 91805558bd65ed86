"""From a pipeline and a user's options to a followed pipeline: refusals, identity, signals, a Spark session.

The same command continues where it stood: the job's id is a hash of the pipeline, its start and its origin.
"""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, assert_never

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import Journal, JournalReplaced, Settled, Written
from headrace.checkpoint.journal.records import FinishedRecord, Record
from headrace.checkpoint.paths import MANIFEST, STAGED, job_url
from headrace.checkpoint.stores.opening import OpenFolder, open_folder, open_store
from headrace.checkpoint.stores.store import ObjectStore
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.execution.origin import Origin, find_origin, origin_again
from headrace.execution.planning import JobPlans
from headrace.plan.logical import plan_logical
from headrace.processes.end_request import EndRequest
from headrace.spark.cluster.progress import Tell
from headrace.spark.driver.driver_shell import Pause
from headrace.spark.driver.exchange import Exchange
from headrace.spark.driver.follow import Follow, FollowOutcome, FollowWish
from headrace.spark.driver.follow_sources import FollowSources
from headrace.spark.driver.publication import Say
from headrace.spark.driver_machine.machine import ReplacedError
from headrace.spark.launch.bounds import begun, up_to_now
from headrace.spark.launch.identity import replay_job, replay_key
from headrace.spark.launch.replay import ReplayOptions, own_exchange, require_replayable
from headrace.spec.pipeline import Pipeline

INTERVAL_MS = 10_000
"""Default time between the starts of two increments."""


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The user's options. replay: those in common with a replay; increments_max: end after this number."""

    replay: ReplayOptions
    interval_ms: int = INTERVAL_MS
    increments_max: int | None = None


def run_follow(
    pipeline: Pipeline, options: FollowOptions, home: Home, say: Say, tell: Tell | None = None
) -> FollowOutcome:
    """Follows a pipeline in a new Spark session, until Ctrl-C or SIGTERM, or until its sources end.

    Raises UserError, DataError, ExternalError.
    """
    prepared = prepare_follow(pipeline, options, home)
    replay = options.replay
    with (
        own_exchange(f"headrace follow {pipeline.name}", replay, prepared.storage, tell) as exchange,
        _asked_to_stop(say) as asked,
    ):
        return prepared.follow(exchange, say, lambda wait_ms: asked.wait(wait_ms / 1000)).run()


@dataclass(frozen=True, slots=True)
class PreparedFollow:
    """A pipeline that can be followed. limits: its file form; storage: parent of the jobs' folders; job: its id."""

    limits: dict[str, Any]
    options: FollowOptions
    storage: str
    job: str

    def follow(self, exchange: Exchange, say: Say, pause: Pause) -> Follow:
        """Returns the driver on an exchange."""
        options, clock = self.options.replay, SystemClock()
        plans = JobPlans(up_to_now(self.limits))
        parallelism = options.subtasks(plans, exchange)
        wish = FollowWish(
            job=self.job,
            storage=job_url(self.storage, self.job),
            parallelism=parallelism,
            interval_ms=self.options.interval_ms,
            increments_max=self.options.increments_max,
            savepoint=options.savepoint,
            final=options.final,
            origin=self._origin(plans, parallelism, clock.now_ms()),
            accepted_topics=() if options.origin is None else options.origin.accepted_topics,
            floors=options.floors,
            python_path=options.python_path,
            allow_repeated=options.allow_repeated,
        )
        sources = FollowSources(self.limits, plans.plan(parallelism))
        return Follow(plans, sources, wish, exchange, clock, pause=pause, say=say)

    def _origin(self, plans: JobPlans, parallelism: int, now_ms: int) -> Origin | None:
        wish = self.options.replay.origin
        if wish is None:
            return None
        journal = JournalStore(open_store(job_url(self.storage, self.job)), "", "").load()
        attempt = journal.newest_attempt
        if attempt is None:
            return find_origin(wish, plans, parallelism, now_ms)
        # the origin was judged, and perhaps claimed, when the job began
        return (
            None
            if journal.checkpoints
            else origin_again(attempt.savepoint or wish.path, wish.renames, plans, parallelism)
        )


def prepare_follow(pipeline: Pipeline, options: FollowOptions, home: Home) -> PreparedFollow:
    """Prepares a pipeline for following. Raises UserError for a pipeline that cannot be followed, and if the job before
    has returned a savepoint: starting from its beginning would repeat its output.
    """
    replay = options.replay
    if replay.end is not None:
        raise UserError("--until says where a replay ends, and --follow goes on", remedy="give one of them")
    replay.require_consistent()
    require_replayable(plan_logical(pipeline))
    limits = begun(pipeline, replay.begin)
    storage = pipeline.checkpoint.storage or str(home.checkpoints)
    origin = None if replay.origin is None else replay.origin.key
    job = replay_job(storage, pipeline.name, replay_key(limits, {"follow": True, "origin": origin}, replay.floors))
    _require_not_handed_out(storage, job)
    return PreparedFollow(limits, options, storage, job)


def _require_not_handed_out(storage: str, job: str) -> None:
    """For a new `job`: refuses if the user ended the job before it by `--give-up`, or if it has a savepoint."""
    stem, _, number = job.rpartition("-")
    if int(number) == 1:
        return
    before = f"{stem}-{int(number) - 1}"
    folder = job_url(storage, before)
    finished = JournalStore(open_store(folder), "", "").load().finished
    if finished is not None and finished.state == "CANCELED":
        raise UserError(
            f"{before} was given up: beginning anew would write its output once more",
            remedy=f"go on from its newest checkpoint with --from-savepoint {folder} --allow-lost-output, or delete "
            "that folder to begin anew",
        )
    if finished is not None and finished.savepoint is not None:
        raise UserError(
            f"{before} has ended with a savepoint: beginning anew would write its output once more",
            remedy=f"go on from it with --from-savepoint {finished.savepoint}",
        )


@contextmanager
def _asked_to_stop(say: Say) -> Iterator[EndRequest]:
    """A request that the first Ctrl-C or SIGTERM makes; a second one ends the increment at once. Outside the main
    thread nothing makes it.
    """
    asked = EndRequest()
    # Python delivers signals to the main thread only
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, _frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        say("stopping when this increment is committed; once more leaves at once: the same command finishes it")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The result. rows: decided rows that are not known to be published; none or all of an epoch's may be."""

    job: str
    rows: int


def give_up(job: str, store: ObjectStore, clock: Clock, *, open_folder: OpenFolder = open_folder) -> GivenUp:
    """Ends an unfinished run on the user's request (`--give-up`), and deletes its unpublished rows.

    store         the job's folder
    open_folder   opens the folder of a savepoint

    A driver that still runs the job is replaced: it stops at its next record. If another driver continues the job
    first, giving up fails. Raises UserError if no run is unfinished, ExternalError.
    """
    journal = DriverJournal(store, job)
    loaded = journal.load()
    if not loaded.records or loaded.finished is not None:
        raise UserError("no run of this command is unfinished", remedy="leave out --give-up")
    decided, newest = loaded.uncommitted, loaded.checkpoints[-1] if loaded.checkpoints else None
    # first the record: from here on no driver can decide, so the staged rows have no owner
    journal.append(FinishedRecord(at_ms=clock.now_ms(), state="CANCELED"))
    store.delete(store.list(STAGED))
    store.delete([each.path for each in store.leftovers()])
    if newest is not None and newest.savepoint is not None:
        folder = open_folder(newest.savepoint)
        files = folder.list("")
        if MANIFEST not in files:
            folder.delete(files)
    return GivenUp(job, 0 if decided is None else sum(item.rows for item in decided.manifest.committables))


class DriverJournal:
    """Reads and writes a job's journal. `store`: the job's folder."""

    def __init__(self, store: ObjectStore, job: str) -> None:
        self._store = JournalStore(store, "", secrets.token_hex(8))
        self._job = job

    def load(self) -> Journal:
        """Reads the journal. Raises ExternalError, UserError."""
        return self._store.load()

    def append(self, draft: Record) -> None:
        """Appends a record. Raises ReplacedError if another driver continues the job, ExternalError."""
        result = self._store.append(draft)
        match result:
            case Written() | Settled():
                pass
            case JournalReplaced(number):
                raise ReplacedError(self._job, number)
            case _:
                assert_never(result)
