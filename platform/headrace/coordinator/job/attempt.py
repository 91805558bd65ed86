"""One running attempt: its epochs, the splits of its subtasks, and the heights of idle partitions. Pure.

A height is the event time that a partition has reached (its watermark). The object is created when every slot has
deployed, passed from state to state while the attempt lives, and dropped at its end.
"""

from __future__ import annotations

from headrace.checkpoint.manifest import SplitDocument
from headrace.coordinator.job.effects import Discover, Send, SendAll
from headrace.coordinator.job.events import SlotReported
from headrace.coordinator.job.job import Job
from headrace.core.source_state import SourceState
from headrace.execution.drift_limits import drift_limits, lesser, pressure_limits
from headrace.execution.epochs import Epochs
from headrace.execution.idle_times import SourceReports
from headrace.execution.split_assignment import assign_splits, without_replaced
from headrace.rpc.deployment import ASSIGNED_SPLITS
from headrace.rpc.messages import AssignSplits, LimitTime, RelayHeights

SWEEP_MS = 900_000
"""The transaction timeout assumed for the length of the sweep, in ms, if no sink states one (`commit_within_ms`)."""


def overdue(waited_ms: int) -> str:
    """Returns the alarm for prepared output that has waited for half of its transaction timeout."""
    return (
        f"no output was committed for {waited_ms // 1000} s; transactions expire after "
        f"{2 * waited_ms // 1000} s, and then their rows have to be written again"
    )


class Attempt:
    """The state of a deployed attempt."""

    def __init__(self, job: Job, now_ms: int) -> None:
        facts = job.facts
        self.epochs = Epochs(job.config.checkpoint, slots=facts.slots, last_epoch=job.epoch, now_ms=now_ms)
        self.ended: set[int] = set()
        self._slots = facts.slots
        self._facts = facts
        self._reports = SourceReports({source: facts.sources[source] for source in sorted(facts.timed)})
        self._heights: dict[str, int | None] = {}
        self._without_splits = False
        self._limits: dict[str, int | None] = {}
        self._pressed: set[int] = set()
        within_ms = facts.commit_within_ms
        # A zombie writer is a writer of an earlier attempt that still runs. It may begin a transaction after the fence,
        # as long as the broker knows its name. So the attempt sweeps for two transaction timeouts.
        self._sweeps_until_ms = now_ms + 2 * (within_ms or SWEEP_MS) if job.open_names else None
        self._alarm_ms = None if within_ms is None else within_ms // 2
        self._committed_ms = now_ms
        self._discovery_due: dict[str, int] = {}
        for source, interval in job.discovery_ms.items():
            if interval is not None and source not in job.final_sources:
                self._discovery_due[source] = now_ms + interval

    @property
    def input_ended(self) -> bool:
        """Whether every slot has reached the end of its input."""
        return len(self.ended) == self._slots

    def assign_all(self, job: Job) -> None:
        """Assigns every source subtask its splits, at the positions of the restored checkpoint."""
        restored = {} if job.restored is None else without_replaced(job.restored, job.splits).sources
        for source, parallelism in self._facts.sources.items():
            state = restored.get(source, SourceState())
            shares = assign_splits(job.splits.get(source, ()), state, parallelism)
            for subtask, share in enumerate(shares):
                documents = ASSIGNED_SPLITS.dump_json(share)
                final = source in job.final_sources
                job.do(Send(subtask, AssignSplits(source, documents, final, state.emitted)))

    def assign_found(self, job: Job, source: str, found: tuple[SplitDocument, ...]) -> None:
        """Assigns newly found splits to subtasks."""
        known = {(split.topic, split.partition) for split in job.splits.get(source, ())}
        # an enumerator may return a split twice, and a second assignment would read its rows twice
        fresh = tuple(split for split in found if (split.topic, split.partition) not in known)
        job.add_splits({source: fresh})
        emitted = None if job.restored is None else job.restored.sources.get(source, SourceState()).emitted
        for subtask, share in enumerate(assign_splits(fresh, SourceState(), self._facts.sources[source])):
            if share:
                job.do(
                    Send(subtask, AssignSplits(source, ASSIGNED_SPLITS.dump_json(share), final=False, emitted=emitted))
                )

    def discover_splits(self, job: Job, now_ms: int) -> None:
        """Starts discovery for every source that is due."""
        for source, due_ms in self._discovery_due.items():
            if now_ms >= due_ms:
                interval = job.discovery_ms[source]
                assert interval is not None, "a source that is looked at again has an interval"
                self._discovery_due[source] = now_ms + interval
                job.do(Discover(source))

    def take_report(self, job: Job, event: SlotReported) -> None:
        """Sends the slots the heights of active partitions, which idle partitions follow, and the limits of
        `time.max_drift` and of slots that hold too much state, whenever they change."""
        self._reports.take(event.status.sources)
        self._without_splits |= any(not report.has_splits for report in event.status.sources)
        # slots need these heights only if partitions may be idle, or if a subtask has no partition
        asked_for = self._without_splits or bool(self._facts.idle)
        heights = self._reports.heights() if asked_for else self._heights
        if heights != self._heights:
            self._heights = heights
            job.do(SendAll(RelayHeights(heights)))
        if event.status.pressed:
            self._pressed.add(event.index)
        else:
            self._pressed.discard(event.index)
        if self._facts.drift or self._pressed or self._limits:
            active = self._reports.active_heights()
            limits = dict.fromkeys(self._limits) | drift_limits(active, self._facts.drift)
            if self._pressed:
                limits = lesser(limits, pressure_limits(active, self._facts.meetings))
            if limits != self._limits:
                self._limits = limits
                job.do(SendAll(LimitTime(limits)))

    def committed(self, job: Job, now_ms: int) -> None:
        """Records that an epoch's output is committed: transactions that are open now began after its barrier."""
        self._committed_ms = now_ms
        job.raise_alarm(None)

    def sweeps(self, now_ms: int) -> bool:
        """Whether zombie writers of earlier attempts may still begin transactions."""
        return self._sweeps_until_ms is not None and now_ms < self._sweeps_until_ms

    def watch_commits(self, job: Job, now_ms: int) -> None:
        """Raises the alarm when half of the transaction timeout has passed without a commit."""
        due_ms = self._alarm_due_ms(job)
        if due_ms is not None and now_ms >= due_ms:
            assert self._alarm_ms is not None, "what is due has a time"
            job.raise_alarm(overdue(self._alarm_ms))

    def _alarm_due_ms(self, job: Job) -> int | None:
        return None if self._alarm_ms is None or job.alarm is not None else self._committed_ms + self._alarm_ms

    def due_ms(self, job: Job, *, periodic: bool) -> int | None:
        """When the attempt needs a Tick. `periodic`: whether periodic checkpoints are taken now."""
        times = [*self._discovery_due.values(), self.epochs.timeout_due_ms, self._alarm_due_ms(job)]
        if periodic:
            times.append(self.epochs.periodic_due_ms)
        return min((time for time in times if time is not None), default=None)
