"""Tasks with more state than they may hold in memory keep it in local files: the same results and the same state."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from headrace.checkpoint.inspection.stored_state import states_of
from headrace.checkpoint.savepoints.savepoint import find
from headrace.checkpoint.stores.opening import open_store
from headrace.core.clock import SystemClock
from headrace.core.errors import UserError
from headrace.execution.planning import JobPlans
from headrace.spark.driver.replay import Replay, ReplayOutcome, ReplayWish
from headrace.spark.task import level_run
from headrace.spark.task.open_task import TaskFiles
from headrace.spark.task.order import JobOrder
from headrace.spark.task.output import outlets, ready
from headrace.spark.task.output.staging_end import read_staged
from headrace.spec.reading.load import load_text
from headrace.worker.state.local_files import LocalFiles, MappedRows
from support.spark.local_exchange import LocalExchange
from support.storage.states import rows_of

PIPELINE = """
name: on-disk
sources:
  orders:
    generator:
      rows: 900
      partitions: 3
      seed: 5
      columns:
        id: {sequence: {start: 1}}
        shop: {int: {min: 0, max: 300}}
        amount: {float: {min: 0, max: 500}}
        at: {time: {start: "2024-03-01T00:00:00Z", step: 1s, jitter: 60s}}
    schema: {id: int64 not null, shop: int64 not null, amount: float64, at: timestamp not null}
    time: {column: at, out_of_orderness: 20s}
steps:
  hourly:
    from: orders
    key_by: [shop]
    window: {tumbling: 10m}
    aggregate:
      orders: count(*)
      total: sum(amount)
      seen: count(distinct id)
    allowed_lateness: 5s
  sliding:
    from: orders
    key_by: [shop]
    window: {sliding: 10m, every: 2m}
    aggregate: {orders: count(*), least: min(amount), kinds: count(distinct id % 5)}
  running:
    from: orders
    key_by: [shop]
    aggregate: {orders: count(*), most: max(amount), total: sum(amount), kinds: count(distinct id % 7)}
sinks:
  windows: {from: hourly, print: {}}
  slid: {from: sliding, print: {}}
  totals: {from: running, print: {}}
  late: {from: hourly.late, print: {}}
"""
KEYS = {"windows": ["shop", "window_start"], "slid": ["shop", "window_start"], "totals": ["shop"]}


class Bounded(LocalExchange):
    """Tasks may hold so many bytes."""

    def __init__(self, state_bytes_max: int) -> None:
        super().__init__(7, parallelism=2)
        self._bytes = state_bytes_max

    def _with_memory(self, order: JobOrder) -> JobOrder:
        return replace(order, state_bytes_max=self._bytes)


def results(outcome: ReplayOutcome) -> dict[str, pl.DataFrame]:
    """Sink -> its rows, the last of each key where they update, sorted."""
    found: dict[str, list[pl.DataFrame]] = {"windows": [], "slid": [], "totals": [], "late": []}
    for share in outcome.staged:
        found[share.sink] += read_staged(share.files, open_store(outcome.storage))
    last = {sink: pl.concat(rows).drop("__ts") for sink, rows in found.items()}
    for sink, key in KEYS.items():
        last[sink] = last[sink].unique(key, keep="last", maintain_order=True)
    return {sink: rows.sort(rows.columns) for sink, rows in last.items()}


def states(outcome: ReplayOutcome) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of each keyed state, in an order of their own; partial aggregates of one key put together."""
    assert outcome.savepoint is not None
    for state in states_of(find(outcome.savepoint).manifest):
        if state.kind == "keyed":
            rows = rows_of(state)
            yield f"{state.node}.{state.state}", rows.select(*state.keys).unique().sort(*state.keys)


def run(folder: Path, exchange: LocalExchange) -> ReplayOutcome:
    """A replay to a savepoint, its rows left where they are staged."""
    wish = ReplayWish(
        job="replay-on-disk-1",
        storage=str(folder / "storage"),
        parallelism=2,
        savepoint=str(folder / "savepoints"),
        publish=False,
    )
    document = load_text(PIPELINE, "on-disk.yaml", environ={}).pipeline.to_dict()
    return Replay(JobPlans(document), wish, exchange, SystemClock()).run()


@pytest.fixture(name="kept")
def _kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each local file that is written. A few rows are sealed, and parts of any size go there."""
    monkeypatch.setattr("headrace.state.table.ROWS_RECENT_MAX", 16)
    monkeypatch.setattr("headrace.state.runs.MOVED_BYTES_MIN", 1)
    rows: list[int] = []
    kept = LocalFiles.kept

    def counted(self: LocalFiles, frame: pl.DataFrame) -> MappedRows:
        rows.append(frame.height)
        return kept(self, frame)

    monkeypatch.setattr(LocalFiles, "kept", counted)
    return rows


@pytest.mark.parametrize("state_bytes_max", [20_000, 1])
def test_state_on_disk_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: list[int], state_bytes_max: int
) -> None:
    monkeypatch.setattr(outlets, "BLOB_ROWS", 40)
    monkeypatch.setattr(level_run, "MERGE_BYTES", 320)
    monkeypatch.setattr(ready, "READY_BYTES_MAX", 2_000)
    whole = run(tmp_path / "whole", Bounded(1 << 30))
    assert not kept
    bounded = run(tmp_path / "bounded", Bounded(state_bytes_max))
    assert len(kept) > 10

    expected, found = results(whole), results(bounded)
    for sink, rows in expected.items():
        assert rows.height
        assert_frame_equal(found[sink], rows)
    for (name, before), (other, after) in zip(states(whole), states(bounded), strict=True):
        assert name == other
        assert_frame_equal(after, before)


def test_remedies_are_settings_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of `state:`, which does not apply there."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError) as unusable:
        TaskFiles(tmp_path / "file")
    files = TaskFiles(tmp_path / "local")
    monkeypatch.setattr(pa.ipc, "new_file", full)
    with pytest.raises(UserError, match="the disk is full") as raised:
        files.kept(pl.DataFrame({"n": [1]}))
    remedies = (unusable.value.remedy, raised.value.remedy)
    assert all(each and "spark.local.dir" in each and "set state" not in each for each in remedies)
