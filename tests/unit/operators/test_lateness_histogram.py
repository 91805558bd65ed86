"""How late rows were: quantiles of a bounded histogram against exact ones."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

from headrace.core.batch import TS, WM
from headrace.core.late_buckets import BUCKETS_MAX, GROWTH, merged, quantile_ms
from headrace.operators.chain import LatenessHistogram


def frame(lateness_ms: list[int]) -> pl.DataFrame:
    return pl.DataFrame({TS: [0] * len(lateness_ms), WM: lateness_ms}, schema={TS: pl.Int64, WM: pl.Int64})


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_exact_to_a_tenth(lateness_ms: list[int], share: float) -> None:
    late = LatenessHistogram()
    half = len(lateness_ms) // 2
    late.add(frame(lateness_ms[:half]))
    late.add(frame(lateness_ms[half:]))
    exact = sorted(lateness_ms)[math.ceil(share * len(lateness_ms)) - 1]
    found = quantile_ms(merged([late.buckets()]), share)
    assert found is not None and exact <= found <= max(exact, 1) * GROWTH + 1


def test_histograms_of_subtasks_add_up() -> None:
    first, second = LatenessHistogram(), LatenessHistogram()
    first.add(frame([10, 20]))
    second.add(frame([10, 5_000]))
    both = merged([first.buckets(), second.buckets()])
    assert sum(both.values()) == 4 and quantile_ms(both, 0.5) == pytest.approx(10, rel=0.1)


def test_rows_without_their_own_watermark_are_not_counted() -> None:
    late = LatenessHistogram()
    late.add(pl.DataFrame({TS: [1, 2]}))
    late.add(frame([]))
    assert late.buckets() == () and quantile_ms({}, 0.5) is None


def test_any_lateness_has_a_bucket() -> None:
    late = LatenessHistogram()
    late.add(frame([2**62]))
    assert late.buckets() == ((BUCKETS_MAX - 1, 1),)
