"""No row comes to an operator below its watermark (decision 4: lateness by the row's own partition).

The plugin asserts it at every input of every operator of the processes that tests run in: the watermark that an
operator has is at most the `__wm` of each row that comes. Rows without a `__wm` of their own are left out: those of
batches that lack the column, also after a gate has joined them with others.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import polars as pl
import pytest

from headrace.core.batch import WM
from headrace.core.signals import TIME_MIN
from headrace.operators import chain
from headrace.operators.chain import Link

_WATERMARKS: weakref.WeakKeyDictionary[Link, int] = weakref.WeakKeyDictionary()


def check(link: Link, batch: pl.DataFrame) -> None:
    """Raises AssertionError if a row of the batch is below the watermark of the operator."""
    if WM not in batch.columns:
        return
    own = batch.get_column(WM)
    lowest = own.filter(own > TIME_MIN).min()
    watermark = _WATERMARKS.get(link, TIME_MIN)
    assert not isinstance(lowest, int) or watermark <= lowest, f"a row of {lowest} comes at watermark {watermark}"


def _remembered(on_watermark: Callable[[Link, int], None]) -> Callable[[Link, int], None]:
    def remembered(self: Link, ts: int) -> None:
        _WATERMARKS[self] = ts
        on_watermark(self, ts)

    return remembered


def pytest_configure() -> None:
    """Wraps the inputs of links."""
    patch = pytest.MonkeyPatch()
    on_batch, on_input = Link.on_batch, chain._Input.on_batch

    def checked_batch(self: Link, batch: pl.DataFrame) -> None:
        check(self, batch)
        on_batch(self, batch)

    def checked_input(self: chain._Input, batch: pl.DataFrame) -> None:
        check(self.link, batch)
        on_input(self, batch)

    patch.setattr(Link, "on_batch", checked_batch)
    patch.setattr(chain._Input, "on_batch", checked_input)
    patch.setattr(Link, "_on_watermark", _remembered(Link._on_watermark))
