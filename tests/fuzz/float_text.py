"""Fuzzes the text of floats: `PYTHONPATH=tests python -m fuzz.float_text --seconds 60 --seed 1`.

The kernel's text must be that of polars. Some texts are read back, and their digits compared with Python's `repr`,
which has the fewest, too.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from decimal import Decimal
from random import Random

import numpy as np
import numpy.typing as npt
import polars as pl

from fuzz.command import Fuzzer, FuzzError, command
from headrace.formats.json.encode import encode_json_object
from headrace.kernels.json_encode import json_encode_kernel

VALUES = 100_000
"""In a batch, of each width."""
_READ = 1_000
_Floats = npt.NDArray[np.float64] | npt.NDArray[np.float32]


def float_batch(chance: Random) -> Counter[str]:
    """Floats of both widths. Raises FuzzError."""
    draw = np.random.default_rng(chance.getrandbits(64))
    for values in (_doubles(draw), _singles(draw)):
        check_floats(values, chance)
    return Counter(float64=VALUES, float32=VALUES)


def float_verdict(counts: Counter[str]) -> None:
    """Raises FuzzError where nothing was compared."""
    if not counts["float64"]:
        raise FuzzError("no floats were written")


def check_floats(values: _Floats, chance: Random) -> None:
    """Compares the texts of floats with polars', some with `repr`. Raises FuzzError."""
    frame = pl.DataFrame({"f": values})
    kernel = json_encode_kernel(["f"], epoch_ms=False)
    assert kernel is not None, "kernels are compiled"
    found = kernel.encode(frame)
    assert found is not None, "floats are written"
    expected = encode_json_object(frame, ["f"], kernels=False)
    if not found.equals(expected):
        different = (pl.Series(pl.from_arrow(found)) != pl.Series(pl.from_arrow(expected))).arg_true()[0]
        raise FuzzError(f"{values[different]!r}: {found[different]}, polars: {expected[different]}")
    for index in chance.sample(range(len(values)), min(_READ, len(values))):
        _check_digits(values[index], found[index].as_py().removeprefix('{"f":').removesuffix("}"))


def _check_digits(value: np.floating[np.typing.NBitBase], text: str) -> None:
    if not math.isfinite(value):
        if text != "null":
            raise FuzzError(f"{value!r} is {text}")
        return
    back = type(value)(text)
    # repr of numpy's floats is the shortest of their width
    if back.tobytes() != value.tobytes() or Decimal(text) != Decimal(str(value)):
        raise FuzzError(f"{value!r} is {text}, which reads as {back!r}")


def _doubles(draw: np.random.Generator) -> npt.NDArray[np.float64]:
    random_bits = draw.integers(0, 1 << 64, VALUES // 2, np.uint64, endpoint=False).view(np.float64)
    count = VALUES // 8
    near_tens = _neighbours(draw, 10.0 ** draw.integers(-320, 309, count).astype(np.float64))
    near_twos = _neighbours(draw, np.ldexp(1.0, draw.integers(-1074, 1024, count)))
    short = draw.integers(0, 10**7, count) / 10.0 ** draw.integers(0, 9, count)
    whole = draw.integers(0, 1 << 62, count).astype(np.float64) / np.ldexp(1.0, draw.integers(0, 62, count))
    return np.concatenate([random_bits, near_tens, near_twos, short, whole])


def _singles(draw: np.random.Generator) -> npt.NDArray[np.float32]:
    random_bits = draw.integers(0, 1 << 32, VALUES // 2, np.uint32, endpoint=False).view(np.float32)
    count = VALUES // 4
    powers = np.concatenate(
        [10.0 ** draw.integers(-45, 39, count).astype(np.float64), np.ldexp(1.0, draw.integers(-149, 128, count))]
    )
    near = powers.astype(np.float32).view(np.uint32) + draw.integers(0, 3, 2 * count).astype(np.uint32)
    return np.concatenate([random_bits, near.view(np.float32)])


def _neighbours(draw: np.random.Generator, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each value or one of the next two above it."""
    return (values.view(np.uint64) + draw.integers(0, 3, len(values)).astype(np.uint64)).view(np.float64)


FUZZER = Fuzzer("fuzz.float_text", float_batch, float_verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
