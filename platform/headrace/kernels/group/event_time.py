"""Event times in milliseconds and the watermarks of rows, in one pass each: `c/group/event_time.c`, or numpy."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from headrace.kernels.library import Kernel, is_loaded, kernel

Times = npt.NDArray[np.int64]
_MILLISECOND_US = 1000


def _milliseconds() -> Kernel:
    return kernel("headrace_event_milliseconds", None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


def _watermarks() -> Kernel:
    number = ctypes.c_int64
    return kernel("headrace_row_watermarks", number, ctypes.c_void_p, number, number, number, number, ctypes.c_void_p)


def event_milliseconds(micros: Times) -> Times:
    """Times in us, rounded down to ms: int64[n]."""
    if not is_loaded():
        return np.floor_divide(micros, _MILLISECOND_US)
    micros = np.ascontiguousarray(micros)
    times = np.empty(len(micros), dtype=np.int64)
    _milliseconds()(micros.ctypes.data, len(micros), times.ctypes.data)
    return times


def row_watermarks(times: Times, before: int | None, lag: int, floor: int) -> tuple[Times, bool]:
    """The watermark of each of n >= 1 rows: the greatest of `before` and the times up to the row, less `lag`, at least
    `floor`: int64[n]. Also returns whether one of them is not below its row's time. All in ms."""
    if not is_loaded():
        greatest = np.maximum.accumulate(times)
        if before is not None:
            greatest = np.maximum(greatest, before)
        watermarks = np.maximum(greatest - lag, floor)
        return watermarks, bool((watermarks >= times).any())
    times, watermarks = np.ascontiguousarray(times), np.empty(len(times), dtype=np.int64)
    first = int(times[0]) if before is None else before
    late = _watermarks()(times.ctypes.data, len(times), first, lag, floor, watermarks.ctypes.data)
    return watermarks, bool(late)
