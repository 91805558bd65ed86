"""The splits of one source subtask: where each stands, when its rows came, and which of them are paused.

Pure: assignments and results of polls in; positions, idle splits and pauses out. Knows neither the reader nor event
time, which is in `worker.task.source_progress`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.connect.source import Polled, SplitId
from headrace.worker.control import Assign, AssignedSplit

SNAPSHOTS_MAX = 64
"""The positions of at most this many epochs are kept until the epoch is committed."""
QUIET_AFTER_MS = 100
"""A source is quiet when no row has arrived for this time."""


class SplitTable:
    """The assigned splits: next positions, the end of each, and the positions of epochs that are not committed yet."""

    def __init__(self) -> None:
        self.positions: dict[SplitId, int] = {}
        """The next position of every assigned split, also of those that are over."""
        self.unread: set[SplitId] = set()
        """Splits that have not been read to their end."""
        self.lag: Mapping[SplitId, int] = {}
        """Messages that each split is behind, as the reader reported last."""
        self.assigned = False
        """Whether an assignment has come: until then the splits are unknown."""
        self.all_read = False
        """Whether every split has been read to its end, and no more will be assigned."""
        self._final = False
        self._restored_over: set[SplitId] = set()
        self._at_barriers: dict[int, dict[SplitId, int]] = {}

    def assign(self, command: Assign) -> tuple[AssignedSplit, ...]:
        """Adds splits; returns them with the state that holds from now on. `unread` has those that are to be read.

        A split that the checkpoint has as finished is not read again, unless its stop has moved on.
        """
        self.assigned, self._final = True, command.final
        added = tuple(_reopened(item) for item in command.splits)
        for item in added:
            split = item.split
            self.positions[split.id] = split.start
            if item.state is not None and item.state.finished:
                self._restored_over.add(split.id)
            else:
                self.unread.add(split.id)
        self.all_read = self._final and not self.unread
        return added

    def polled(self, polled: Polled) -> None:
        """Adds the positions, ends and lag of a poll."""
        if polled.positions:
            self.positions.update(polled.positions)
        if polled.finished:
            self.unread -= polled.finished
            self.all_read = self._final and not self.unread
        if polled.lag:
            self.lag = polled.lag

    def at_barrier(self, epoch: int) -> None:
        """Keeps the positions at the barrier of an epoch."""
        # the reader never had the splits that were over before this attempt, and could not commit them
        self._at_barriers[epoch] = {
            split: position for split, position in self.positions.items() if split not in self._restored_over
        }
        # an aborted epoch is never committed: its positions are dropped here
        while len(self._at_barriers) > SNAPSHOTS_MAX:
            del self._at_barriers[min(self._at_barriers)]

    def committed(self, epoch: int) -> Mapping[SplitId, int] | None:
        """Returns the positions at the barrier of a committed epoch and drops them; None if they are not kept."""
        return self._at_barriers.pop(epoch, None)


def _reopened(assigned: AssignedSplit) -> AssignedSplit:
    """The split as unfinished if its stop has moved past its position since the checkpoint."""
    split, state = assigned.split, assigned.state
    if state is not None and state.finished and split.stop is not None and split.stop > split.start:
        return AssignedSplit(split, replace(state, finished=False))
    return assigned


class IdleRule:
    """When the rows of each split came: which splits are idle, and whether the source is quiet. Times are monotonic ms.

    A split is idle when it stands at the end of its log and no row of it has come for `idle_after_ms` (None: no split
    is ever idle).
    """

    def __init__(self, idle_after_ms: int | None, now_ms: int) -> None:
        self.quiet_from_ms = now_ms + QUIET_AFTER_MS
        """From this time on the source is quiet, if no row comes before."""
        self._idle_after_ms = idle_after_ms
        self._last_row_ms: dict[SplitId, int] = {}
        self._at_end: set[SplitId] = set()
        self._polled_ms = 0

    def restart(self, splits: Iterable[SplitId], now_ms: int) -> None:
        """Counts the time of splits from now on, as if a row had come: they were assigned, or return rows again."""
        self._last_row_ms.update(dict.fromkeys(splits, now_ms))

    def polled(self, polled: Polled, ended_ms: int, *, has_rows: bool) -> None:
        """Adds the rows, ends and lag of a poll."""
        self._polled_ms = ended_ms
        if has_rows and polled.batch is not None:
            self.quiet_from_ms = ended_ms + QUIET_AFTER_MS
            for run in polled.batch.runs:
                self._last_row_ms[run.split] = ended_ms
                self._at_end.discard(run.split)
        self._at_end |= polled.at_end
        if polled.lag:
            # The partition has grown since it reached its end: the new messages are queued in the client behind those
            # of other partitions. It is not idle, though no row of it arrives.
            self._at_end -= {split for split, lag in polled.lag.items() if lag > 0}

    def idle(self, paused: frozenset[SplitId]) -> list[SplitId]:
        """The idle splits. A paused split returns no rows, and is not idle for that."""
        if self._idle_after_ms is None:
            return []
        # by the time of the poll, not by now: rows may have arrived since, in a poll ahead or while the chain worked
        before_ms = self._polled_ms - self._idle_after_ms
        return [split for split in self._at_end - paused if self._last_row_ms[split] <= before_ms]

    def without_rows_ms(self, split: SplitId, now_ms: int) -> int:
        """The time since the last row of a split, or since `restart`."""
        return max(now_ms - self._last_row_ms[split], 0)


@dataclass(frozen=True, slots=True)
class Pauses:
    """Splits to pause and splits to resume now, in order."""

    pause: tuple[SplitId, ...]
    resume: tuple[SplitId, ...]


class PauseRule:
    """Watermark alignment: splits whose own watermark is past the limit pause until they are well below it.

    The margin of a tenth of the allowed drift keeps a split from pausing and resuming with every batch.
    """

    def __init__(self, max_drift_ms: int | None) -> None:
        self.paused: frozenset[SplitId] = frozenset()
        self._margin_ms = (max_drift_ms or 0) // 10

    def align(self, limit: int | None, past: Callable[[int], frozenset[SplitId]]) -> Pauses | None:
        """Applies a limit (epoch ms; None: no limit); returns what changes, or None if nothing does.

        `past` returns the splits whose own watermark is above a time.
        """
        if limit is None:
            ahead, below = frozenset[SplitId](), self.paused
        else:
            ahead = past(limit)
            below = self.paused - past(limit - self._margin_ms)
        fresh = ahead - self.paused
        if not fresh and not below:
            return None
        self.paused = (self.paused - below) | ahead
        return Pauses(tuple(sorted(fresh)), tuple(sorted(below)))
