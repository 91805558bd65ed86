"""A source whose decoder does not know a schema yet: what passes meanwhile, and what does not.

Every test runs twice: polls in turn with the chain, and one batch ahead of it.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from headrace.connect.format import UnknownIds
from headrace.connect.source import Polled, RowBatch, Run, Split
from headrace.core.signals import Barrier
from headrace.core.source_state import SplitState
from headrace.worker.control import SourceWait, StopReading, Trigger
from headrace.worker.task.read_ahead import Reading
from headrace.worker.task.source_task import RETRY_FIRST_MS, RETRY_MAX_MS, ParkedBatch, parked
from support.control.running_source import P0, P1, Running, assign, running

pytestmark = pytest.mark.usefixtures("ahead")

TWO = frozenset({2})


def waits(source: Running) -> bool:
    found = source.task.status().waits
    return found is not None and found.on == "schema 7"


def test_rows_wait_and_barriers_pass_at_the_position_before_them() -> None:
    with running([[1, 2, 3]]) as source:
        source.ingest.unknown = TWO
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: waits(source))
        polls = source.reader.polls
        source.tell(Trigger(1), Trigger(2))
        source.sees(lambda: len(source.sent.snapshots) == 2)
        assert source.sent.times == [1]
        # one poll may have been on its way
        assert source.reader.polls <= polls + 1
        source.ingest.unknown = frozenset()
        source.sees(lambda: source.sent.ended == 1)
        assert source.task.status().waits is None
        source.finish()
    assert source.sent.times == [1, 2, 3]
    for snapshot in source.sent.snapshots:
        assert snapshot.source is not None
        assert snapshot.source[1].splits == (SplitState("t", 0, 1, 1, 0),)


@pytest.mark.parametrize("ending", ["stop", "stop reading"])
def test_a_source_that_waits_can_be_stopped(ending: str) -> None:
    with running([[1, 2]], ends=False) as source:
        source.ingest.unknown = TWO
        source.tell(assign(Split(P0, 0)))
        source.sees(lambda: waits(source))
        source.tell(StopReading() if ending == "stop reading" else Trigger(1, stop=True), Trigger(2))
        source.sees(lambda: Barrier(2) in source.sent.signals)
        source.finish()
    state = source.sent.snapshots[-1].source
    assert state is not None
    assert state[1].splits == (SplitState("t", 0, 1, 1, 0),)
    assert source.sent.times == [1]


def test_a_partition_whose_rows_wait_is_not_idle() -> None:
    """Its rows would be late: the other partition goes on for as long as nothing is known."""
    with running([[1, 2], [9_000]], ends=False, idle_ms=1) as source:
        source.ingest.unknown = TWO
        source.tell(assign(Split(P0, 0), Split(P1, 0)))
        source.sees(lambda: waits(source))
        assert P0 not in {each.split for each in source.task.partitions() if each.idle}
        source.ingest.unknown = frozenset()
        source.sees(lambda: sorted(source.sent.times) == [1, 2, 9_000])
        source.finish()


def test_the_time_between_two_offers_doubles_to_its_limit() -> None:
    reading, unknown = Reading(Polled(), 5), UnknownIds(("7",), "schema 7")
    batch: ParkedBatch | None = None
    delays = []
    for now_ms in range(100, 110):
        batch = parked(reading, unknown, batch, now_ms=now_ms, monotonic_ms=now_ms)
        delays.append(batch.due_ms - now_ms)
        assert SourceWait(batch.on, batch.since_ms) == SourceWait("schema 7", 100)
    assert delays[:3] == [RETRY_FIRST_MS, 2 * RETRY_FIRST_MS, 4 * RETRY_FIRST_MS]
    assert delays[-1] == RETRY_MAX_MS


def test_its_splits_are_those_with_rows() -> None:
    rows = RowBatch(pl.DataFrame({"ts": [1, 2]}), np.arange(2, dtype=np.int64), (Run(P0, 0, 1), Run(P1, 1, 2)))
    waiting = parked(Reading(Polled(rows), 0), UnknownIds((), ""), None, now_ms=0, monotonic_ms=0)
    assert waiting.splits == {P0, P1}
