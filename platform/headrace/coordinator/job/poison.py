"""Recognises a failure that repeats at the same positions: whatever raises it there will raise it again. Pure.

A data error ends a job at once, because it names its row. A panic of a library, a crash in native code or a fault of
headrace names none, and the job would restart for ever: its sources read the same rows again. Outages are not counted,
however often they repeat. Nor do they undo what was counted: the first failure that arrives of an attempt may be that
of a slot that lost its connection to the one that crashed.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import replace
from typing import NamedTuple

from headrace.coordinator.job.restart import STABLE_MS
from headrace.core.text.plural import plural
from headrace.rpc.messages import Failure

KINDS_MAX = 16
"""So many different failures are counted at a time; the one seen least recently is forgotten."""
PLACES_MAX = 4
"""A message names so many partitions at most."""
_VARIES = re.compile(r"\bslot \S+|0x[0-9a-fA-F]+|/\S+|\d+")
"""What differs between two failures of one cause: names of slots, addresses, paths, numbers."""


class Position(NamedTuple):
    """The next position that a source reads of a partition."""

    source: str
    topic: str
    partition: int
    position: int


Positions = Set[Position]


class RepeatedFailures:
    """Counts the failures of one job since its sources last moved on. Times are ms of one clock.

    after   so many failures of one kind end the job; None: none do
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
