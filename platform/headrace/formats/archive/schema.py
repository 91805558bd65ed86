"""Columns and footer of an archive file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.core.errors import UserError

VERSION = 1
FOOTER = b"headrace.archive"
"""The footer's key; its value is a JSON object with the fields of `Footer`."""

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        # epoch ms, -1 for a record without a timestamp
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        # NULL is a tombstone
        pa.field("value", pa.binary()),
        pa.field(
            "headers",
            pa.list_(
                pa.field(
                    "element",
                    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]),
                    nullable=False,
                )
            ),
            nullable=False,
        ),
    ]
)
"""Columns of a file, whose rows are in offset order; headers keep the order of the record."""


def numbers(rows: pa.Table, column: str) -> npt.NDArray[np.int64]:
    """An int64 column without NULLs. Uses polars, because pyarrow's conversion imports pandas if it is installed."""
    series = pl.from_arrow(rows[column])
    assert isinstance(series, pl.Series)
    return series.to_numpy()


@dataclass(frozen=True, slots=True)
class Footer:
    """Metadata of a file.

    first, next                    as in its name
    min_timestamp, max_timestamp   of its rows, epoch ms
    job                            the job that wrote it
    """

    version: int
    topic: str
    partition: int
    first: int
    next: int
    rows: int
    min_timestamp: int
    max_timestamp: int
    job: str

    def metadata(self) -> dict[bytes, bytes]:
        """The footer as Parquet key-value metadata."""
        return {FOOTER: json.dumps(asdict(self)).encode()}


def footer_of(metadata: Mapping[bytes, bytes] | None, place: str) -> Footer:
    """The footer in a file's key-value metadata. Raises UserError if `place` is not an archive file of a supported
    version."""
    remedy = "keep other files out of the archive"
    text = (metadata or {}).get(FOOTER)
    if text is None:
        raise UserError(f"{place} is no file of an archive: its footer lacks {FOOTER.decode()}", remedy=remedy)
    footer = json.loads(text)
    if footer.get("version") != VERSION:
        raise UserError(
            f"{place} has archive format {footer.get('version')}, and this headrace reads {VERSION}",
            remedy="read it with the headrace that wrote it, or a newer one",
        )
    try:
        return Footer(**footer)
    except TypeError as cause:
        raise UserError(f"{place} is no file of an archive: {cause}", remedy=remedy) from cause
