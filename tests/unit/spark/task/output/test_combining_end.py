"""Rows that leave a task towards a step that combines them: as partials where that is less, else as they are."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pytest

from headrace.core.signals import Watermark
from headrace.operators.chain import MAIN, Receiver
from headrace.spark.levels.envelope import Envelope, Kind, decode_partials, decode_rows
from headrace.spark.levels.levels import levels_of
from headrace.spark.task.output import outlets
from headrace.spark.task.output.outlets import Outgoing, outgoing
from unit.spark.plans import COUNT, TIMED, plan_of

WINDOWED = {**COUNT, "window": {"tumbling": "10ms"}}
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "id": pl.Int64,
    "key": pl.String,
    "at": pl.Datetime(),
    "__ts": pl.Int64,
    "__wm": pl.Int64,
}


class Sent:
    """One sender of rows that a keyed step takes, and what has left it."""

    def __init__(self, counted: Mapping[str, Any] = WINDOWED) -> None:
        plan = plan_of({"counts": {"from": "one", **counted}}, "counts", source=TIMED)
        self.ready: deque[Envelope] = deque()
        self.counters: dict[str, Counter[str]] = {}
        levels = levels_of(plan, {"one": 1, "two": 1})
        self.made: Outgoing = outgoing(plan, levels, "one", 0, ready=self.ready, counters=self.counters)
        self.end: Receiver = self.made.ends["one", MAIN][0]

    def rows(self, *keys: str, ts: int = 1, wm: int = 0) -> None:
        count = len(keys)
        columns = {"id": [1] * count, "key": keys, "at": [ts] * count, "__ts": [ts] * count, "__wm": [wm] * count}
        self.end.on_batch(pl.DataFrame(columns, schema=SCHEMA))

    def finish(self) -> tuple[int, int]:
        """Rows and partial rows that were sent, over all targets."""
        self.end.on_signal(Watermark(5))
        for each in self.made.outlets:
            each.finish()
        rows = [decode_rows(blob.payload) for blob in self.ready if blob.kind is Kind.ROWS]
        partials = [decode_partials(blob.payload) for blob in self.ready if blob.kind is Kind.PARTIALS]
        trailers = [blob for blob in self.ready if blob.kind is Kind.TRAILER]
        assert sum(blob.number for blob in trailers) == len(rows) + len(partials)
        return sum(frame.height for frame in rows), sum(made.parts[0].height for made in partials)


def test_rows_of_few_keys_are_combined_and_counted_for_the_step() -> None:
    sent = Sent()
    for _ in range(100):
        sent.rows("a", "b", "a", "b")
    assert sent.finish() == (0, 2)
    assert sent.counters == {"counts": Counter(rows_in=400)}


def test_rows_whose_keys_do_not_repeat_go_as_they_are() -> None:
    sent = Sent()
    for number in range(100):
        sent.rows(f"a{number}", f"b{number}")
    assert sent.finish() == (200, 0)
    assert sent.counters == {"counts": Counter()}


def test_the_first_rows_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "COMBINED_ROWS", 4)
    sent = Sent()
    sent.rows("a", "b", "c", "d")
    sent.rows(*"a" * 40)
    assert sent.finish() == (44, 0)


def test_late_rows_go_as_they_are() -> None:
    sent = Sent()
    sent.rows(*"a" * 40)
    sent.rows("a", wm=10**9)
    assert sent.finish() == (1, 1)
    assert sent.counters == {"counts": Counter(rows_in=40)}


def running(step: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in step.items() if name != "window"}


def forgiving(step: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**step, "allowed_lateness": "1s"}


@pytest.mark.parametrize("changed", [running, forgiving])
def test_steps_without_a_combiner_get_rows(changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    sent = Sent(changed(WINDOWED))
    sent.rows(*"a" * 40)
    assert sent.finish() == (40, 0)
    assert not sent.counters
