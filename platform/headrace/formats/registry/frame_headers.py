"""Schema ids in the headers of records. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
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

    Of several headers of one name the last one counts, as for Confluent's Java clients. A header without a value frames
    nothing.
    """
    counts = headers.list.len().fill_null(0).to_numpy()
    has_some = np.flatnonzero(counts)
    if not len(has_some):
        return None
    # exploded, an empty list would be a row
    flat = (headers if len(has_some) == len(headers) else headers.gather(has_some)).explode()
    keys, values = flat.struct.field("key"), flat.struct.field("value")
    message = np.repeat(np.arange(len(counts)), counts)
    has_value = ~_mask(values.is_null())
    named = np.flatnonzero(_mask(keys == HEADERS[side]) & has_value)
    is_foreign = _mask(keys.is_in([f"apicurio.{side}.{each}" for each in _APICURIO_IDS])) & has_value
    if not len(named) and not is_foreign.any():
        return None
    owners = message[named]
    is_last = np.append(owners[1:] != owners[:-1], True)[: len(owners)]
    framed = owners[is_last]
    is_apicurio = np.zeros(len(counts), np.bool_)
    is_apicurio[message[is_foreign]] = True
    is_apicurio[framed] = False
    chosen = values.gather(named[is_last]).to_arrow(compat_level=pl.CompatLevel.oldest())
    return HeaderFrames(framed, chosen, np.flatnonzero(is_apicurio))


def _mask(flags: pl.Series) -> npt.NDArray[np.bool_]:
    return flags.fill_null(value=False).to_numpy()
