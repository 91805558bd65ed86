"""Reads a decimal column from the text of its literals, as the NDJSON reader has lost the digits of large ones."""

from __future__ import annotations

import re

import orjson
import polars as pl

from headrace.core.types import Decimal


def read_decimals(name: str, dtype: Decimal, messages: pl.Series, read: pl.Series) -> pl.Series:
    """The values of field `name` in `messages` (valid JSON texts), and NULL wherever that cannot be told for sure.

    `read` tells where the field has a value at all. Sure is: the field's name stands once in the message, as a key,
    and nothing is escaped in the message.
    """
    key = orjson.dumps(name).decode()
    digits = f"-?(?:0|[1-9][0-9]{{0,{dtype.precision - 1}}})" + (
        rf"(?:\.[0-9]{{1,{dtype.scale}}})?" if dtype.scale else ""
    )
    pattern = rf'[{{,]\s*{re.escape(key)}\s*:\s*(?:({digits})|"({digits})")\s*[,}}]'
    groups = messages.str.extract_groups(pattern).struct
    found = pl.select(pl.coalesce(groups[0], groups[1])).to_series()
    unsure = (messages.str.count_matches(key, literal=True) != 1) | messages.str.contains("\\", literal=True)
    unsure |= read.is_null()
    sure = found.set(unsure, None)
    # Digits before the point may still be too many: the cast gives NULL for those.
    return sure.cast(pl.Decimal(dtype.precision, dtype.scale), strict=False).alias(name)
