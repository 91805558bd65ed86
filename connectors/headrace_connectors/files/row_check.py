"""Rejects rows that a files sink cannot write: those whose message would be more than one line of a text file."""

from __future__ import annotations

import polars as pl

from headrace.connect.format import Encoder
from headrace.connect.row_check import Refusal, Refused, leaves
from headrace.connect.sink import SinkContext


class LinesCheck:
    """`connect.row_check.RowCheck` for text files. Encodes rows only if a value of theirs has a line break."""

    def __init__(self, context: SinkContext, encoder: Encoder) -> None:
        self._encoder = encoder
        self._names = list(context.schema.names)

    def refused(self, rows: pl.DataFrame) -> Refused:
        """See RowCheck."""
        visible = rows.select(self._names)
        suspected = [name for name in self._names if _breaks(visible.get_column(name))]
        if not suspected:
            return {}
        messages = pl.from_arrow(self._encoder.encode(visible))
        assert isinstance(messages, pl.Series)
        texts = messages.cast(pl.Binary).bin
        # a CR at the end would be read as part of the line end
        broken = texts.contains(b"\n") | texts.ends_with(b"\r")
        found: dict[int, Refusal] = {}
        for number in broken.arg_true():
            column = next(name for name in suspected if _breaks(visible.get_column(name).slice(number, 1)))
            why = f"column {column} has a line break, so the row cannot be one line of a file"
            found[number] = Refusal(why, "write it as json")
        return found


def _breaks(column: pl.Series) -> bool:
    """Whether the column contains a line break."""
    return any(_breaks_plainly(leaf) for leaf in leaves(column))


def _breaks_plainly(values: pl.Series) -> bool:
    if values.dtype == pl.String:
        return bool(values.str.contains_any(["\n", "\r"]).any())
    return values.dtype == pl.Binary and bool((values.bin.contains(b"\n") | values.bin.contains(b"\r")).any())
