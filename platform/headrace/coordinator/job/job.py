"""What a job's machine keeps whatever state the job is in, and how its states ask for effects. Pure.

States change it; nobody else sees it. It lasts as long as the job is in this coordinator.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.checkpoint.manifest import Manifest, OutputTotal, SplitDocument
from headrace.coordinator.job.config import Beginning, JobConfig
from headrace.coordinator.job.effects import Alarm, Answer, Effect, RecordException, ReleaseSlots
from headrace.coordinator.job.events import JournalRead, Splits
from headrace.coordinator.job.restart import RestartStrategy, may_restart, open_strategy
from headrace.execution.plan_facts import PlanFacts
from headrace.rpc.messages import Failure


@dataclass(slots=True)
class Request:
    """A user's operation under way. `folder`: URL of the savepoint folder it fills, None: none."""

    id: str
    folder: str | None = None
    drain: bool = False


@dataclass(slots=True)
class Job:
    """The machine's memory.

    attempt      newest attempt's number
    epoch        greatest epoch that was begun, as far as known
    parallelism  of the attempt that runs, or of the next one
    began_with   the own checkpoint that the attempt began with, if any
    restored     where the attempt began, or the newest complete checkpoint since
    splits       everything that enumerators resolved
    stop         the stop that was asked for; a failure does not undo it
    rescale      the rescale that waits for its new attempt to run
    message      what the job waits for, for people
    output       sink -> what it has committed at `restored`, or where it began
    names        sink -> names that the attempt's writers may use: those of its record, and their successors
    open_names   sink -> names under which earlier attempts may have left output open
    hosted       the connector host is open, as far as known
    alarm        what a person should look at
    """

    config: JobConfig
    strategy: RestartStrategy
    attempt: int = 0
    epoch: int = 0
    parallelism: int = 1
    restored: Manifest | None = None
    restored_own: bool = False
    began_with: Manifest | None = None
    splits: dict[str, tuple[SplitDocument, ...]] = field(default_factory=dict)
    final_sources: frozenset[str] = frozenset()
    discovery_ms: dict[str, int | None] = field(default_factory=dict)
    stop: Request | None = None
    rescale: Request | None = None
    failure: Failure | None = None
    savepoint: str | None = None
    message: str = ""
    output: dict[str, OutputTotal] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    open_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hosted: bool = False
    alarm: str | None = None
    restarts: int = 0
    ran: bool = False
    """Whether an attempt was deployed in this coordinator."""
    tickets: int = 0
    releasing: int = 0
    """ReleaseSlots that are not answered yet: slots of earlier attempts may take longer than those of later ones."""
    effects: list[Effect] = field(default_factory=list)

    @staticmethod
    def accepted(config: JobConfig) -> Job:
        """A job that nothing has happened to."""
        return Job(config, open_strategy(config.restart), parallelism=config.parallelism)

    @property
    def begins_anew(self) -> bool:
        """Whether an end that the journal tells of is not this run's."""
        return self.config.resume and not self.ran

    @property
    def counted(self) -> dict[str, dict[str, int]]:
        """What earlier attempts of this job had counted up to the cut that the attempt began with."""
        return self.began_with.counters if self.began_with is not None else {}

    @property
    def facts(self) -> PlanFacts:
        """The plan at the job's parallelism."""
        return self.config.plan(self.parallelism)

    def do(self, *effects: Effect) -> None:
        """Asks for effects, in order."""
        self.effects += effects

    def ticket(self) -> int:
        """A number for a record, by which its answer is known."""
        self.tickets += 1
        return self.tickets

    def release(self) -> None:
        """Asks for the end of the attempt's slots."""
        self.releasing += 1
        self.do(ReleaseSlots())

    def take_journal(self, read: JournalRead) -> None:
        """What the journal says goes over what was remembered."""
        self.attempt = max(self.attempt, read.attempt)
        self.epoch = max(self.epoch, read.epoch)
        self.restored, self.restored_own = read.restore or self.config.origin, read.restore is not None
        self.output, self.open_names = dict(read.output), dict(read.transactions)
        if not self.restored_own:
            for sink, names in self.config.left_open.items():
                self.open_names[sink] = (*names, *self.open_names.get(sink, ()))
        self.add_splits(read.splits)
        if read.parallelism is not None and self.rescale is None:
            self.parallelism = read.parallelism
        if read.stopping is not None and self.stop is None:
            self.stop = Request("", read.stopping.savepoint, read.stopping.drain)

    def go_back(self, before: Manifest | None) -> None:
        """Goes on from an earlier checkpoint than the journal's newest, whose output is lost."""
        self.restored, self.restored_own = before or self.config.origin, before is not None
        begun = {sink: OutputTotal(begin=total.begin) for sink, total in self.output.items()}
        self.output = begun if before is None else begun | before.output

    def begin_output(self, begins: Mapping[str, Mapping[str, Any]]) -> None:
        """Notes where the output of sinks begins that have none yet."""
        for sink, begin in begins.items():
            self.output.setdefault(sink, OutputTotal(begin=dict(begin)))

    @property
    def ends_if_refused(self) -> bool:
        """Whether connectors that refuse to open end the job."""
        return self.attempt == 0 and self.config.beginning is not Beginning.RESUMED

    def raise_alarm(self, text: str | None) -> None:
        """Says what a person should look at, or that there is nothing any more; each once."""
        if text != self.alarm:
            self.alarm = text
            self.do(Alarm(text))

    def add_splits(self, splits: Splits) -> None:
        """Keeps the first answer for every split."""
        for source, found in splits.items():
            known = {(split.topic, split.partition): split for split in found}
            known |= {(split.topic, split.partition): split for split in self.splits.get(source, ())}
            self.splits[source] = tuple(known[key] for key in sorted(known))

    def fail_request(self, request: Request | None, failure: Failure) -> None:
        """Tells a waiting user that it did not work."""
        if request is not None and request.id:
            self.do(Answer(request.id, failure=failure))

    def note(self, failure: Failure, follows: str) -> None:
        """Keeps a failure for people."""
        self.failure = failure
        self.do(RecordException(self.attempt, failure, follows))

    def restart_delay_ms(self, failure: Failure, now_ms: int) -> int | None:
        """How long to wait before the next attempt; None: there is none."""
        if not may_restart(failure) or (self.config.beginning is Beginning.ATTENDED and not self.ran):
            return None
        return self.strategy.on_failure(now_ms, self._jitter())

    def _jitter(self) -> float:
        # spread over jobs and attempts, and the same again in a rerun: the machine draws no random numbers
        return (zlib.crc32(f"{self.config.job}/{self.attempt}".encode()) % 10_000) / 10_000
