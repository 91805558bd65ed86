"""Detects rows that fail in an aggregating step, before anything is computed from them.

A row fails if an argument or filter of an aggregate fails for it, or if its event time exceeds the range of window
bounds. This is decided before lateness and from the row alone, so it never depends on timing. An argument's failure
counts only for rows that pass the aggregate's filter.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.core.batch import TS
from headrace.expr.compiled import AggregateCall, CompiledAggregate, CompiledScalar, all_calls
from headrace.operators.operator import Collector
from headrace.operators.row_errors import RowErrors, failed_rows

TIME_LIMIT_MS = 8_000_000_000_000_000
"""Event times beyond this (about the year 255000) cannot become window bounds."""


class RowFailures:
    """Removes failing rows from batches, by the step's `on_error`."""

    def __init__(self, errors: RowErrors, aggregates: Sequence[CompiledAggregate], *, timed: bool) -> None:
        """`timed`: the step has windows, so the event times of rows are checked too."""
        self._errors = errors
        self._timed = timed
        self._tests = [pair for call in all_calls(aggregates) for pair in _fails(call)]

    def none(self, batch: pl.DataFrame) -> bool:
        """Whether no row of the batch fails."""
        if self._timed and not _times_fit(batch):
            return False
        return not any(mask.any() for _, mask in self._failed(batch))

    def passing(self, batch: pl.DataFrame, out: Collector) -> pl.DataFrame:
        """The rows that do not fail, possibly none."""
        times_fit = not self._timed or _times_fit(batch)
        if times_fit and not self._tests:
            return batch
        bad: dict[int, str] = {}
        if not times_fit:
            beyond = ~batch.get_column(TS).is_between(-TIME_LIMIT_MS, TIME_LIMIT_MS)
            bad |= dict.fromkeys(beyond.arg_true().to_list(), "its event time is out of range")
        failed = self._failed(batch)
        if any(mask.any() for _, mask in failed):
            bad = failed_rows(batch, failed) | bad
        return batch.filter(self._errors.reject(batch, bad, out)) if bad else batch

    def _failed(self, batch: pl.DataFrame) -> list[tuple[CompiledScalar, pl.Series]]:
        """The fallible expressions, each with the mask of rows for which it fails."""
        if not self._tests:
            return []
        # with_columns, not select: an expression without columns must yield a value for every row
        masks = [test.fill_null(value=False).alias(f"__fails{i}") for i, (_, test) in enumerate(self._tests)]
        answers = batch.with_columns(masks)
        return [(scalar, answers.get_column(f"__fails{i}")) for i, (scalar, _) in enumerate(self._tests)]


def _times_fit(batch: pl.DataFrame) -> bool:
    times = batch.get_column(TS)
    least, greatest = times.min(), times.max()
    assert isinstance(least, int), "rows of windows have event times"
    assert isinstance(greatest, int), "rows of windows have event times"
    return least >= -TIME_LIMIT_MS and greatest <= TIME_LIMIT_MS


def _fails(call: AggregateCall) -> list[tuple[CompiledScalar, pl.Expr]]:
    pairs = []
    if call.where is not None and call.where.fails is not None:
        pairs.append((call.where, call.where.fails))
    for argument in call.arguments:
        if argument.fails is not None:
            counts = argument.fails
            if call.where is not None:
                counts &= call.where.value.fill_null(value=False)
            pairs.append((argument, counts))
    return pairs
