"""Union: rows pass as they are, and a row's place gets the number of its input."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

from headrace.core.batch import O_INDEX
from headrace.core.errors import DataError
from headrace.core.types import Field, Primitive, Schema
from headrace.operators.chain import MAIN, Link
from headrace.operators.union import UnionConfig
from support.oracles.collector import Collected

CONFIG = UnionConfig("u", ("a", "b", "c"), Schema((Field("x", Primitive.INT64),)))


def united(*batches: tuple[int, pl.DataFrame]) -> pl.DataFrame:
    """The rows that a fresh union makes of (number of the input, rows)."""
    operator, out = CONFIG.open(), Collected()
    for number, batch in batches:
        operator.on_input(number, batch, out)
    return out.frame


def test_rows_of_one_source_row_have_places_in_the_order_of_inputs() -> None:
    placed = pl.DataFrame({"x": [7, 8, 9], O_INDEX: [0, 1, 2]})
    rows = united((2, placed), (0, placed), (1, placed))
    assert rows["x"].to_list() == [7, 8, 9] * 3
    assert rows.sort(O_INDEX)["x"].to_list() == [7] * 3 + [8] * 3 + [9] * 3
    assert rows[O_INDEX].to_list() == [2, 5, 8, 0, 3, 6, 1, 4, 7]


def test_without_places_the_batch_itself_passes() -> None:
    batch = pl.DataFrame({"x": [1]})
    operator, out = CONFIG.open(), Collected()
    operator.on_input(1, batch, out)
    assert out.batches[0] is batch


def test_a_place_that_has_no_room_for_the_number_is_refused() -> None:
    largest = pl.DataFrame({"x": [1], O_INDEX: [(2**63 - 1) // 3]})
    assert united((0, largest))[O_INDEX].item() == (2**63 - 1) // 3 * 3
    with pytest.raises(DataError, match="step 'u': the place"):
        united((0, pl.DataFrame({"x": [1], O_INDEX: [(2**63 - 1) // 3 + 1]})))


def test_a_link_has_a_receiver_for_each_input_and_counts_the_rows_of_all() -> None:
    class Below(list[pl.DataFrame]):
        def on_batch(self, batch: pl.DataFrame) -> None:
            self.append(batch)

        def on_signal(self, signal: object) -> None:
            raise AssertionError

    below, counters = Below(), Counter[str]()
    link = Link(CONFIG.open(), {MAIN: [below]}, counters, node="u")
    for receiver in link.inputs(3):
        receiver.on_batch(pl.DataFrame({"x": [1], O_INDEX: [0]}))
    assert [batch[O_INDEX].item() for batch in below] == [0, 1, 2]
    assert counters == {"rows_in": 3, "rows_out": 3}
    with pytest.raises(AssertionError, match="has the number"):
        link.on_batch(pl.DataFrame({"x": [1]}))
