"""Checksums of checkpoint files: `xxh64:<16 hex digits>` of the whole file. Wraps polars-hash for this layer."""

from __future__ import annotations

import polars as pl
import polars_hash

from headrace.core.errors import InternalError

_KIND = "xxh64"


def checksum(data: bytes | bytearray | memoryview) -> str:
    """The checksum of a file's content."""
    column = polars_hash.col("data").nchash.xxhash64()
    digest = pl.DataFrame({"data": [bytes(data)]}, schema={"data": pl.Binary}).select(column).item()
    if not isinstance(digest, int):
        raise InternalError("polars-hash gave no number for a file's content")
    return f"{_KIND}:{digest:016x}"
