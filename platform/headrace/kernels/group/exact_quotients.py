"""Exact sums divided by counts, rounded once to float64: `c/group/exact_quotients.c`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.kernels.library import Kernel, is_loaded, kernel

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
_DIGIT_BITS = 32
_DIGITS_ABOVE = 2
"""Digits above the highest column: its numbers are wider than one digit, and carries reach one more."""


class _Quotients(ctypes.Structure):
    _fields_ = (
        ("columns", ctypes.c_void_p),
        ("digits", ctypes.c_void_p),
        ("column_count", ctypes.c_int64),
        ("digit_count", ctypes.c_int64),
        ("exponent", ctypes.c_int64),
        ("counts", ctypes.c_void_p),
        ("groups", ctypes.c_int64),
        ("values", ctypes.c_void_p),
        ("sure", ctypes.c_void_p),
    )


def _kernel() -> Kernel:
    return kernel("headrace_exact_quotients", ctypes.c_int64, ctypes.c_void_p)


def exact_quotients(
    lanes: Sequence[tuple[Whole, int]], counts: Whole | None
) -> tuple[Floats, npt.NDArray[np.bool_]] | None:
    """Sums of whole numbers times 2^exponent (each lane: numbers, exponent), divided by `counts` > 0 unless None.

    Returns the quotients, exact and rounded once, and the mask of valid quotients: normal numbers of float64, with a
    count below 2^32. None without the kernel, or if the exponents are not on one grid of 32 bits.
    """
    ordered = sorted(lanes, key=lambda lane: lane[1])
    lowest = ordered[0][1]
    steps = [exponent - lowest for _, exponent in ordered]
    if not is_loaded() or any(step % _DIGIT_BITS for step in steps) or len(set(steps)) < len(steps):
        return None
    columns = [np.ascontiguousarray(numbers, dtype=np.int64) for numbers, _ in ordered]
    groups = len(columns[0])
    addresses = np.array([column.ctypes.data for column in columns], dtype=np.int64)
    digits = np.array([step // _DIGIT_BITS for step in steps], dtype=np.int64)
    divisors = None if counts is None else np.ascontiguousarray(counts, dtype=np.int64)
    values, sure = np.empty(groups, dtype=np.float64), np.empty(groups, dtype=np.bool_)
    state = _Quotients(
        addresses.ctypes.data,
        digits.ctypes.data,
        len(columns),
        int(digits[-1]) + 1 + _DIGITS_ABOVE,
        lowest,
        None if divisors is None else divisors.ctypes.data,
        groups,
        values.ctypes.data,
        sure.ctypes.data,
    )
    return (values, sure) if _kernel()(ctypes.addressof(state)) else None
