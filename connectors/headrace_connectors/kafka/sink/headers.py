"""Record headers from columns: text and binary unchanged, other types as JSON."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

Header = tuple[str, bytes | None]


def header_columns(rows: pl.DataFrame, columns: Mapping[str, str]) -> list[list[Header]]:
    """One list of (name, value) per row; NULL is a header without a value."""
    named = [[(name, value) for value in _bytes(rows.get_column(column))] for name, column in columns.items()]
    return [list(row) for row in zip(*named, strict=True)]


def record_headers(column: pl.Series) -> list[list[Header]]:
    """The headers that records had, of a column of lists of name and value; none for NULL."""
    return [[(each["key"], each["value"]) for each in listed or ()] for listed in column.to_list()]


def _bytes(column: pl.Series) -> list[bytes | None]:
    if column.dtype in (pl.String, pl.Binary):
        return column.cast(pl.Binary).to_list()
    from headrace.formats.json.encode import encode_json_object

    texts = pl.from_arrow(encode_json_object(column.to_frame("value"), ["value"]))
    assert isinstance(texts, pl.Series)
    prefix = len('{"value":')
    bare = texts.str.slice(prefix).str.strip_suffix("}").str.strip_chars('"')
    return pl.select(pl.when(column.is_not_null()).then(bare)).to_series().cast(pl.Binary).to_list()
