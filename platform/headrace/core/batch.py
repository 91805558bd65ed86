"""The batch: a polars DataFrame of rows plus hidden columns, the unit that every operator works on.

Hidden columns (names begin with `__`, which user columns may not):

    __ts      Int64    event time in epoch ms; NULL where the source has no time
    __wm      Int64    watermark of the row's own source partition just after the row; absent from a batch in which
                       every row has __wm < __ts (so it is never late)
    __op      Boolean  True marks a delete of an updating edge; absent where no row is one
    __kg      Int32    key group, after a keyed split that needs it
    __headers List     headers of the record, in bad records on their way to a dead letter topic only

    order columns, only where an operator downstream needs a row's place in the total order or its source position:
    __o_node  String   source name, or the name of the node that made the row
    __o_text  String   topic, or the made row's key as JSON
    __o_major Int64    partition, or the made row's window start
    __o_minor Int64    offset, or the made row's number
    __o_index Int64    place among the rows made from one source row: extended by `explode` and `union`
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.core.ids import HIDDEN_PREFIX
from headrace.core.signals import TIME_MIN

TS = "__ts"
WM = "__wm"
OP = "__op"
KG = "__kg"
HEADERS = "__headers"
O_NODE, O_TEXT, O_MAJOR, O_MINOR, O_INDEX = "__o_node", "__o_text", "__o_major", "__o_minor", "__o_index"
ORDER_COLUMNS = (O_NODE, O_TEXT, O_MAJOR, O_MINOR, O_INDEX)
ORDER_SCHEMA: dict[str, pl.DataType] = {
    O_NODE: pl.String(),
    O_TEXT: pl.String(),
    O_MAJOR: pl.Int64(),
    O_MINOR: pl.Int64(),
    O_INDEX: pl.Int64(),
}
_STACKED_MAX = 8
"""Most batches that are put together one by one."""


def visible_columns(batch: pl.DataFrame) -> list[str]:
    """The user's columns, in order."""
    return [name for name in batch.columns if not name.startswith(HIDDEN_PREFIX)]


def hidden_columns(batch: pl.DataFrame) -> list[str]:
    """The engine's own columns, in order."""
    return [name for name in batch.columns if name.startswith(HIDDEN_PREFIX)]


def concat_batches(batches: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All rows in one batch, in order. Fills `__wm` with -2^63 and `__op` with False for batches that lack them."""
    if len(batches) == 1:
        return batches[0]
    columns = batches[0].columns
    if any(batch.columns != columns for batch in batches):
        batches = _aligned(batches)
    if len(batches) > _STACKED_MAX:
        return pl.concat(batches, rechunk=False)
    # a few small batches: `concat` has a fixed cost of 10 us
    whole = batches[0].clone()
    for batch in batches[1:]:
        whole.vstack(batch, in_place=True)
    return whole


def _aligned(batches: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    fill: dict[str, pl.Expr] = {
        WM: pl.lit(TIME_MIN, dtype=pl.Int64).alias(WM),
        OP: pl.lit(value=False).alias(OP),
    }
    present = dict.fromkeys(name for batch in batches for name in batch.columns)
    aligned = []
    for batch in batches:
        missing = [name for name in present if name not in batch.columns]
        assert set(missing) <= set(fill), f"batches of one edge differ in columns {missing}"
        aligned.append(batch.with_columns([fill[name] for name in missing]).select(list(present)))
    return aligned
