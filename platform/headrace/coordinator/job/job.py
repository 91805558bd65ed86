"""The job machine's memory across all states, and the methods by which states request effects. Pure.

Only states change it. It lives as long as the job's driver.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from headrace.checkpoint.manifest import Formats, Manifest, OutputTotal, SplitDocument
from headrace.coordinator.job.config import Beginning, JobConfig
from headrace.coordinator.job.effects import Alarm, Answer, Effect, ReadJournal, RecordException, ReleaseSlots
from headrace.coordinator.job.events import JournalRead, Splits, StopAsked
from headrace.coordinator.job.restart import STABLE_MS, RestartStrategy, may_restart, open_strategy
from headrace.core.errors import Domain
from headrace.core.text.plural import plural
from headrace.execution.plan_facts import PlanFacts
from headrace.rpc.messages import Failure
from headrace.spec.settings import NoRestart


@dataclass(slots=True)
class Request:
    """A user's operation in progress."""

    id: str


@dataclass(slots=True)
class Job:
    """The machine's memory.

    attempt        the newest attempt's number
    epoch          the greatest epoch that was begun, as far as is known
    parallelism    of the running attempt, or of the next one
    began_with     the checkpoint of this job that the attempt restored, if any
    restored       the checkpoint that the attempt restored, or the newest complete one since
    restored_own   `restored` is a checkpoint of this job; False: it is the job's origin, or None
    reused         the attempt's checkpoints may name files of the checkpoint that it restored, or of its claimed origin
    splits         all splits that enumerators resolved
    stop           the requested stop; a failure does not undo it
    rescale        the rescale that waits until its new attempt runs
    leaving        a worker that is going to end and has a slot of the attempt; empty: none
    message        the current wait, as text for users
    output         sink -> its committed output at `restored`, or the position at which its output began
    names          sink -> names that the attempt's writers may use: those of its record, and their successors
    open_names     sink -> names under which earlier attempts may have left transactions open
    hosted         whether the connector host is open, as far as is known
    alarm          the condition that a person should check
    """

    config: JobConfig
    strategy: RestartStrategy
    repeated: RepeatedFailures
    attempt: int = 0
    epoch: int = 0
    parallelism: int = 1
    restored: Manifest | None = None
    restored_own: bool = False
    reused: bool = False
    began_with: Manifest | None = None
    splits: dict[str, tuple[SplitDocument, ...]] = field(default_factory=dict)
    final_sources: frozenset[str] = frozenset()
    discovery_ms: dict[str, int | None] = field(default_factory=dict)
    stop: StopRequest | None = None
    rescale: Request | None = None
    failure: Failure | None = None
    savepoint: str | None = None
    leaving: str = ""
    message: str = ""
    output: dict[str, OutputTotal] = field(default_factory=dict)
    formats: Formats = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    open_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hosted: bool = False
    alarm: str | None = None
    restarts: int = 0
    explained: int = 0
    """The newest attempt whose failure `repeated` has counted."""
    ran: bool = False
    """Whether an attempt was deployed in this coordinator."""
    stopped: bool = False
    """Whether a stop has ended it."""
    ended_early: bool = False
    """Whether a stop ends it, or has ended it, without a last checkpoint."""
    tickets: int = 0
    releasing: int = 0
    """Number of ReleaseSlots that are not answered yet. Releases overlap, because slots of an earlier attempt may take
    longer to exit than those of a later one.
    """
    effects: list[Effect] = field(default_factory=list)

    @staticmethod
    def accepted(config: JobConfig) -> Job:
        """Returns the memory of a new job."""
        restart = config.restart
        after = None if isinstance(restart, NoRestart) else restart.poison_after
        return Job(config, open_strategy(restart), RepeatedFailures(after), parallelism=config.parallelism)

    @property
    def begins_anew(self) -> bool:
        """Whether an end in the journal belongs to an earlier run, and does not end this one."""
        return self.config.resume and not self.ran

    @property
    def counted(self) -> dict[str, dict[str, int]]:
        """The counters of earlier attempts, up to the checkpoint that this attempt restored."""
        return self.began_with.counters if self.began_with is not None else {}

    @property
    def positions(self) -> Positions:
        """The positions from which the next attempt reads: those of `restored`, else where its splits begin."""
        if self.restored is None:
            return frozenset(
                Position(source, split.topic, split.partition, split.start)
                for source, splits in self.splits.items()
                for split in splits
            )
        return frozenset(
            Position(source, split.topic, split.partition, split.position)
            for source, state in self.restored.sources.items()
            for split in state.splits
        )

    @property
    def facts(self) -> PlanFacts:
        """The plan at the job's parallelism."""
        return self.config.plan(self.parallelism)

    def do(self, *effects: Effect) -> None:
        """Requests effects, in order."""
        self.effects += effects

    def ticket(self) -> int:
        """Returns a new number, by which an answer is matched with its request."""
        self.tickets += 1
        return self.tickets

    def read_journal(self) -> int:
        """Requests a read of the journal. Returns the ticket that its answer carries."""
        ticket = self.ticket()
        self.do(ReadJournal(ticket))
        return ticket

    def release(self) -> None:
        """Requests the end of the attempt's slots."""
        self.releasing += 1
        self.leaving = ""
        self.do(ReleaseSlots())

    def ask_stop(self, asked: StopAsked, now_ms: int) -> StopRequest:
        """Records the user's stop."""
        within_ms = self.config.stop_timeout_ms if asked.within_ms is None else asked.within_ms
        self.stop = StopRequest(asked.request, within_ms, now_ms + within_ms, asked.folder, asked.drain)
        return self.stop

    def take_journal(self, read: JournalRead, now_ms: int) -> None:
        """Replaces the memory with the journal's content."""
        # max: an epoch that was begun here but never recorded may have left files under its number, so the number is
        # not used again
        self.attempt = max(self.attempt, read.attempt)
        self.epoch = max(self.epoch, read.epoch)
        self.restored, self.restored_own = read.restore or self.config.origin, read.restore is not None
        # A coordinator that was replaced may still delete files that its newest checkpoint did not name. If that one is
        # damaged now, an earlier one is restored, whose files may be among them.
        # The same holds of files of an origin that is restored once more.
        self.reused = (0 if read.restore is None else read.restore.epoch) == read.epoch
        self.output, self.open_names = dict(read.output), dict(read.transactions)
        # the origin's job may have left transactions open under its own names: the first attempt here fences those, too
        if not self.restored_own:
            for sink, names in self.config.left_open.items():
                self.open_names[sink] = (*names, *self.open_names.get(sink, ()))
        self.add_splits(read.splits)
        self.formats = read.formats or ({} if self.config.origin is None else self.config.origin.formats)
        if read.parallelism is not None and self.rescale is None:
            self.parallelism = read.parallelism
        if read.stopping is not None and self.stop is None:
            self.ask_stop(StopAsked("", read.stopping.savepoint, read.stopping.drain), now_ms)

    def go_back(self, before: Manifest | None) -> None:
        """Continues from an earlier checkpoint than the journal's newest, because the newest one's output is lost."""
        self.restored, self.restored_own = before or self.config.origin, before is not None
        self.reused = False
        begun = {sink: OutputTotal(begin=total.begin) for sink, total in self.output.items()}
        self.output = begun if before is None else begun | before.output

    def begin_output(self, begins: Mapping[str, Mapping[str, Any]]) -> None:
        """Records the position at which output begins, for sinks without output so far."""
        for sink, begin in begins.items():
            self.output.setdefault(sink, OutputTotal(begin=dict(begin)))

    @property
    def ends_if_refused(self) -> bool:
        """Whether a connector's refusal to open ends the job."""
        return self.attempt == 0 and self.config.beginning is not Beginning.RESUMED

    def raise_alarm(self, text: str | None) -> None:
        """Raises an alarm, or clears it (None). Requests an effect only on a change."""
        if text != self.alarm:
            self.alarm = text
            self.do(Alarm(text))

    def add_splits(self, splits: Splits) -> None:
        """Adds splits. A split that is known already keeps its first resolution."""
        for source, found in splits.items():
            known = {(split.topic, split.partition): split for split in found}
            # start and stop positions are resolved once for the job's life: a later answer must not move them
            known |= {(split.topic, split.partition): split for split in self.splits.get(source, ())}
            self.splits[source] = tuple(known[key] for key in sorted(known))

    def identify_splits(self, splits: Splits) -> None:
        """Replaces known splits that the enumerator returns with another identity: their log was not known before, or
        the user has accepted another one in its place."""
        for source, identified in splits.items():
            now = {(split.topic, split.partition): split for split in identified if split.identity}
            self.splits[source] = tuple(
                _identified(split, now.get((split.topic, split.partition), split))
                for split in self.splits.get(source, ())
            )

    def fail_request(self, request: Request | StopRequest | None, failure: Failure) -> None:
        """Answers a waiting user with a failure."""
        # a request without id comes from the journal: the user who made it no longer waits
        if request is not None and request.id:
            self.do(Answer(request.id, failure=failure))

    def note(self, failure: Failure, follows: str, attempt: int | None = None) -> None:
        """Records a failure in the job's history. attempt: None: the newest."""
        self.failure = failure
        self.do(RecordException(self.attempt if attempt is None else attempt, failure, follows))

    def count(self, failure: Failure, attempt: int, now_ms: int) -> Failure | None:
        """Counts what ended an attempt, unless that is an outage. Returns the failure to end the job with, if the same
        has repeated too often; else None."""
        if failure.domain == Domain.EXTERNAL or attempt == self.explained:
            return None
        self.explained = attempt
        return self.repeated.on_failure(failure, self.positions, now_ms)

    def restart_delay_ms(self, failure: Failure, now_ms: int) -> int | None:
        """Returns the delay before the next attempt; None: no attempt follows."""
        if not may_restart(failure) or (self.config.beginning is Beginning.ATTENDED and not self.ran):
            return None
        return self.strategy.on_failure(now_ms, self._jitter())

    def _jitter(self) -> float:
        # spread over jobs and attempts, yet repeatable: the machine draws no random numbers
        return (zlib.crc32(f"{self.config.job}/{self.attempt}".encode()) % 10_000) / 10_000


def _identified(known: SplitDocument, found: SplitDocument) -> SplitDocument:
    if not known.identity:
        return known.model_copy(update={"identity": found.identity})
    return known if known.identity == found.identity else found


KINDS_MAX = 16
"""Greatest number of different failures that are counted at a time; the one seen least recently is dropped."""
PLACES_MAX = 4
"""Greatest number of partitions that a message names."""
_VARIES = re.compile(r"\bslot \S+|0x[0-9a-fA-F]+|/\S+|\d+")
"""Parts of a message that vary between failures of one cause: names of slots, addresses, paths, numbers."""


class Position(NamedTuple):
    """The next position that a source reads of a partition."""

    source: str
    topic: str
    partition: int
    position: int


Positions = Set[Position]


class RepeatedFailures:
    """Counts the failures of one job since its sources last advanced. Times are ms of one clock.

    after   number of failures of one kind that end the job; None: no number does

    A failure that repeats at the same positions will repeat again. A data error ends a job at once, because it names
    its row. A panic of a library, a crash in native code or a bug of headrace names no row, and the job would restart
    for ever: its sources read the same rows again. Outages are not counted, however often they repeat. They do not
    reset the count: the first failure that arrives of an attempt may be that of a slot that lost its connection to the
    one that crashed.
    """

    def __init__(self, after: int | None) -> None:
        self._after = after
        self._counts: dict[tuple[str | None, str], int] = {}
        self._positions: Positions = frozenset()
        self._failed_ms = 0

    def on_checkpoint(self, positions: Positions, now_ms: int) -> None:
        """Records a complete checkpoint, which ends the count if the job has moved on.

        A checkpoint at the positions of the one before proves that only 10 minutes after a failure: until then the
        attempt may not have read the row yet.
        """
        if positions != self._positions or now_ms - self._failed_ms >= STABLE_MS:
            self._counts.clear()
        self._positions = positions

    def on_failure(self, failure: Failure, positions: Positions, now_ms: int) -> Failure | None:
        """Returns the failure to end the job with, if this one has repeated too often; else None.

        Called once for each failed attempt that no outage ended. positions: those at which the next one would begin.
        """
        if self._after is None:
            return None
        self._failed_ms = now_ms
        if not self._positions <= positions:
            # a checkpoint was recorded, and its attempt failed before the output was committed; a new partition alone
            # is no progress
            self._counts.clear()
        self._positions = positions
        kind = failure.node, _VARIES.sub("", failure.message.partition("\n")[0])
        count = self._counts.pop(kind, 0) + 1
        self._counts[kind] = count
        if len(self._counts) > KINDS_MAX:
            del self._counts[next(iter(self._counts))]
        return _repeated(failure, count, positions) if count >= self._after else None


def _repeated(failure: Failure, count: int, positions: Positions) -> Failure:
    begins = f", each time after {_places(positions)}" if positions else ""
    advice = (
        "a row behind these positions may be the cause: correct the step that fails, or filter such rows before it, "
        "and start the job from its last checkpoint; with `restart: {poison_after: off}` it tries for ever"
    )
    return replace(
        failure,
        message=f"the same failure {plural(count, 'time')} without progress{begins}: {failure.message}",
        remedy=f"{failure.remedy}; {advice}" if failure.remedy else advice,
        retry=False,
    )


def _places(positions: Positions) -> str:
    ordered = sorted(positions)
    shown = ", ".join(f"{each.topic}[{each.partition}] offset {each.position}" for each in ordered[:PLACES_MAX])
    return shown if len(ordered) <= PLACES_MAX else f"{shown} and {len(ordered) - PLACES_MAX} more"


LEAVE_SHARE = 4
"""The last quarter of a stop's time is for the end itself: slots exit, and decided output is committed."""
LEAVE_MS_MAX = 10_000
"""Upper bound of that time."""


@dataclass(slots=True)
class StopRequest:
    """A user's request to stop the job, and its bound. Times are arguments.

        asked ───────────────────────────────> gives up ──────────> due
              a last checkpoint may be taken            the job ends

    A stop ends with a last epoch, which needs an attempt that runs. If none is complete when the stop gives up, the job
    ends at its last complete checkpoint (`states.ending_early`).

    id         of the user's request; empty if the stop was read from the journal
    within_ms  the bound
    due_ms     the time by which the job ends
    folder     URL of the folder of its savepoint; None: it takes a checkpoint only
    drain      time advances to its end first
    why        the reason why no last checkpoint was taken; empty: it may still be
    """

    id: str
    within_ms: int
    due_ms: int
    folder: str | None = None
    drain: bool = False
    why: str = ""

    @property
    def leave_ms(self) -> int:
        """The time that is reserved for the end itself."""
        return min(self.within_ms // LEAVE_SHARE, LEAVE_MS_MAX)

    @property
    def gives_up_ms(self) -> int:
        """The time from which on no last checkpoint is waited for."""
        return self.due_ms - self.leave_ms

    @property
    def needs_attempt(self) -> bool:
        """Whether an attempt must run to fulfil it even though the last complete checkpoint has every row that was
        read: it writes a savepoint, or advances time to its end."""
        return self.folder is not None or self.drain
