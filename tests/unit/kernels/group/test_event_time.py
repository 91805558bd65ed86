"""Event times and row watermarks by the kernel and by numpy are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.signals import TIME_MIN
from headrace.kernels.group import event_time
from headrace.kernels.group.event_time import event_milliseconds, row_watermarks

INT64 = st.one_of(st.integers(-2000, 2000), st.integers(-(2**63), 2**63 - 1))
TIMES = st.lists(INT64, min_size=1, max_size=40).map(lambda values: np.array(values, dtype=np.int64))


@given(TIMES)
def test_milliseconds_round_down(micros: event_time.Times) -> None:
    assert event_milliseconds(micros).tolist() == [value // 1000 for value in micros.tolist()]
    assert event_milliseconds(np.repeat(micros, 2)[::2]).tolist() == event_milliseconds(micros).tolist()


@given(TIMES, st.none() | INT64, st.integers(0, 2**62), st.just(TIME_MIN) | INT64)
def test_watermarks_are_those_of_numpy(times: event_time.Times, before: int | None, lag: int, floor: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_time, "is_loaded", lambda: False)
        expected, is_late = row_watermarks(times, before, lag, floor)
    found, found_late = row_watermarks(times, before, lag, floor)
    assert (found.tolist(), found_late) == (expected.tolist(), is_late)
    apart, apart_late = row_watermarks(np.repeat(times, 2)[::2], before, lag, floor)
    assert (apart.tolist(), apart_late) == (expected.tolist(), is_late)
