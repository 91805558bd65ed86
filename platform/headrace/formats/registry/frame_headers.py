"""Schema ids in the headers of records. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.formats.registry.byte_spans import Positions

Side = Literal["value", "key"]
HEADERS = {"value": "__value_schema_id", "key": "__key_schema_id"}
"""Confluent's header for each side."""
_APICURIO_IDS = ("globalId", "contentId", "contentHash", "artifactId")


@dataclass(frozen=True, slots=True)
class HeaderFrames:
    """What the headers of a batch say.

    framed     indices of the messages with Confluent's header, growing
    values     its value for each, without NULLs: Arrow large_binary
    apicurio   indices of messages whose headers have an id of Apicurio and none of Confluent, growing
    """

    framed: Positions
    values: pa.Array
    apicurio: Positions


def header_frames(headers: pl.Series, side: Side) -> HeaderFrames | None:
    """Reads the headers of a batch: list<struct{key: string, value: binary}>. None: none of them says anything.

    Of several headers of one name the last one counts, as for Confluent's Java clients.
    """
    flat = headers.alias("header").to_frame().with_row_index("message").drop_nulls().explode("header").drop_nulls()
    if not flat.height:
        return None
    # a header without a value frames nothing
    flat = flat.unnest("header").drop_nulls()
    named = flat.filter(pl.col("key") == HEADERS[side]).unique("message", keep="last", maintain_order=True)
    foreign = flat.filter(pl.col("key").is_in([f"apicurio.{side}.{each}" for each in _APICURIO_IDS]))
    apicurio = foreign.join(named, on="message", how="anti")["message"].unique().sort()
    if not named.height and not len(apicurio):
        return None
    values = named["value"].to_arrow(compat_level=pl.CompatLevel.oldest())
    return HeaderFrames(_positions(named["message"]), values, _positions(apicurio))


def _positions(column: pl.Series) -> Positions:
    return column.cast(pl.Int64).to_numpy().astype(np.int64, copy=False)
