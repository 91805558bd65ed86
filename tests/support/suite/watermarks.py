"""No row comes to an operator below its watermark (decision 4: lateness by the row's own partition).

The plugin asserts it at every input of every operator, in the processes that tests run in and in slots that are forked
for them: the watermark that an operator has is at most the `__wm` of each row that comes. Rows without a `__wm` of
their own are left out: those of batches that lack the column, also after a gate has joined them with others.

A job whose slot fails may go on. So what a slot finds goes to a file, too, and fails the test that ends next. Slots
that are fresh interpreters are not watched.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from headrace.core.batch import WM
from headrace.core.signals import TIME_MIN
from headrace.operators import chain
from headrace.operators.chain import Link

FILE = "HEADRACE_TEST_WATERMARKS"
"""Names the file of what slots find, for the processes that fork them."""
_told_to: Path | None = None

_WATERMARKS: weakref.WeakKeyDictionary[Link, int] = weakref.WeakKeyDictionary()


def check(link: Link, batch: pl.DataFrame) -> None:
    """Raises AssertionError if a row of the batch is below the watermark of the operator."""
    if WM not in batch.columns:
        return
    own = batch.get_column(WM)
    lowest = own.filter(own > TIME_MIN).min()
    watermark = _WATERMARKS.get(link, TIME_MIN)
    if isinstance(lowest, int) and watermark > lowest:
        text = f"a row of {lowest} comes at watermark {watermark}"
        if _told_to is not None:
            with _told_to.open("a") as file:
                file.write(f"slot {os.getpid()}: {text}\n")
        raise AssertionError(text)


def _remembered(on_watermark: Callable[[Link, int], None]) -> Callable[[Link, int], None]:
    def remembered(self: Link, ts: int) -> None:
        _WATERMARKS[self] = ts
        on_watermark(self, ts)

    return remembered


def watch_slots() -> None:
    """Has the processes that are forked off this one watch their operators."""
    global _told_to  # noqa: PLW0603 - a process is such a one for good
    _told_to = Path(os.environ[FILE])
    _watch()


def pytest_configure() -> None:
    """Wraps the inputs of links."""
    number, os.environ[FILE] = tempfile.mkstemp(prefix="watermarks-")
    os.close(number)
    _watch()


def pytest_unconfigure() -> None:
    """Removes the file."""
    Path(os.environ.pop(FILE)).unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def no_slot_saw_a_row_below_its_watermark() -> Iterator[None]:
    """One of this test, or of a cluster that it shares."""
    yield
    told = told_by_slots()
    assert not told, told


def told_by_slots() -> str:
    """What slots have found since the last call."""
    file = Path(os.environ[FILE])
    text = file.read_text() if file.stat().st_size else ""
    if text:
        os.truncate(file, 0)
    return text


def _watch() -> None:
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
