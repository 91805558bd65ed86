"""Local files under the scheme `stopping://`, with places to stop at: before and after a savepoint's manifest.

And a `map` function that stops while rows are computed. The points are those of `stopping_kafka`, in the folder that
$HEADRACE_TEST_POINTS names.

    computing  before-manifest  after-manifest
"""

from __future__ import annotations

import os
from typing import Any

import polars as pl
from fsspec.implementations.local import LocalFileSystem
from stopping_kafka import Points  # type: ignore[import-not-found]  # beside it on the path of its processes

FOLDER = "HEADRACE_TEST_POINTS"
SCHEME = "stopping"


def computing(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows as they are; may stop."""
    Points(os.environ[FOLDER]).reach("computing")
    return rows


class StoppingFiles(LocalFileSystem):  # type: ignore[misc]  # fsspec is not typed here
    """The local file system."""

    protocol = SCHEME

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix(f"{SCHEME}://")))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        """Writes a file."""
        points = Points(os.environ[FOLDER])
        last = path.endswith("manifest.json")
        if last:
            points.reach("before-manifest")
        super().pipe_file(path, value, mode, **options)
        if last:
            points.reach("after-manifest")
