"""Tasks that hold more than they may go on with shares of their keys on disk: the same results and the same state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from headrace.checkpoint.inspection.stored_state import states_of
from headrace.checkpoint.savepoints.savepoint import find
from headrace.checkpoint.stores.opening import open_store
from headrace.core.clock import SystemClock
from headrace.execution.planning import JobPlans
from headrace.spark.driver.replay import Replay, ReplayOutcome, ReplayWish
from headrace.spark.task import level_run, spilling_chain
from headrace.spark.task.order import JobOrder
from headrace.spark.task.output import outlets
from headrace.spark.task.output.staging_end import read_staged
from headrace.spec.reading.load import load_text
from support.spark.local_exchange import LocalExchange
from support.storage.states import rows_of

PIPELINE = """
name: shares
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
  running:
    from: orders
    key_by: [shop]
    aggregate: {orders: count(*), most: max(amount)}
sinks:
  windows: {from: hourly, print: {}}
  totals: {from: running, print: {}}
  late: {from: hourly.late, print: {}}
"""
KEYS = {"windows": ["shop", "window_start"], "totals": ["shop"]}


class Bounded(LocalExchange):
    """Tasks may hold so many bytes."""

    def __init__(self, state_bytes_max: int) -> None:
        super().__init__(7, parallelism=2)
        self._bytes = state_bytes_max

    def _with_memory(self, order: JobOrder) -> JobOrder:
        return replace(order, state_bytes_max=self._bytes)


def results(outcome: ReplayOutcome) -> dict[str, pl.DataFrame]:
    """Sink -> its rows, the last of each key where they update, sorted."""
    found: dict[str, list[pl.DataFrame]] = {"windows": [], "totals": [], "late": []}
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
        job="replay-shares-1",
        storage=str(folder / "storage"),
        parallelism=2,
        savepoint=str(folder / "savepoints"),
        publish=False,
    )
    document = load_text(PIPELINE, "shares.yaml", environ={}).pipeline.to_dict()
    return Replay(JobPlans(document), wish, exchange, SystemClock()).run()


@pytest.mark.parametrize("state_bytes_max", [20_000, 1_500])
def test_shares_of_keys_come_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_bytes_max: int) -> None:
    monkeypatch.setattr(outlets, "BLOB_ROWS", 40)
    monkeypatch.setattr(level_run, "MERGE_BYTES", 320)
    divided: list[int] = []
    divide = spilling_chain.SpillingChain._divide

    def counted(self: spilling_chain.SpillingChain, keys: spilling_chain.Keys) -> None:
        divided.append(self._depth)
        divide(self, keys)

    monkeypatch.setattr(spilling_chain.SpillingChain, "_divide", counted)
    whole = run(tmp_path / "whole", Bounded(1 << 30))
    assert not divided
    shared = run(tmp_path / "shared", Bounded(state_bytes_max))
    assert 0 in divided
    assert (1 in divided) == (state_bytes_max < 10_000)  # shares that are divided again

    expected, found = results(whole), results(shared)
    for sink, rows in expected.items():
        assert_frame_equal(found[sink], rows)
    for (name, before), (other, after) in zip(states(whole), states(shared), strict=True):
        assert name == other
        assert_frame_equal(after, before)


def test_the_rows_of_each_input_are_divided_by_its_own_keys() -> None:
    rows = pl.DataFrame({"a": [n % 50 for n in range(400)], "b": [n // 8 for n in range(400)]})
    placed: dict[tuple[int, int], set[int]] = {}
    with spilling_chain._Shares((("a",), ("b",)), 128, 0) as shares:
        for number in range(2):
            shares.add_rows(number, rows)
        for share in range(spilling_chain.BUCKETS):
            for number, own in shares.rows(share):
                for key in own["ab"[number]]:
                    placed.setdefault((number, key), set()).add(share)
    assert sorted(placed) == [(number, key) for number in range(2) for key in range(50)]
    assert all(len(places) == 1 for places in placed.values())
    assert all(placed[0, key] == placed[1, key] for key in range(50)), "equal keys of both inputs meet in one share"
