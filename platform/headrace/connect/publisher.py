"""The publisher contract: staged result rows reach a sink exactly once, whatever the number of tries.

An engine that computes first and writes afterwards (a replay on Spark) stages result rows in files, records in its
journal that they are the result, and only then publishes them. That decision is final: if a publisher dies, another one
publishes the same rows.

    decision (journal) ─> open_publisher(share 0) ─> published: 0 ─> write all rows     ─> finish
                                                 crash
                          open_publisher(share 0) ─> published: k ─> write rows from k  ─> finish ─> `committed`

A **share** is the output of one subtask for one sink in one epoch: rows in a fixed order, the same at every try. Shares
of one sink are independent and may be published concurrently, by several processes. Only the newest publisher of a
share may have an effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.connect.sink_batch import SinkBatch
from headrace.core.errors import InternalError


@dataclass(frozen=True, slots=True)
class Share:
    """The rows that a publisher publishes; the sink's context names the job, node, subtask and schema.

    epoch   of the job, from 1 on
    rows    in all of it
    """

    epoch: int
    rows: int

    def require_whole(self, rows: int) -> None:
        """Raises InternalError unless `rows`, the number written, is the whole share. `finish` calls it: the staged
        rows of a share that counts as published are deleted."""
        if rows != self.rows:
            raise self.error(rows)

    def error(self, rows: int) -> InternalError:
        """The error of a publisher that has received another number of rows than the share has."""
        return InternalError(
            f"a share of epoch {self.epoch} has {self.rows:,} rows, and its publisher was given {rows:,}",
            remedy="the share does not count as published, and its staged rows are kept; please report this",
        )


class Publisher(Protocol):
    """The live half of a sink for staged rows; used by one thread. Opening one fences every earlier publisher of the
    share.

    The context's `job`, `subtask` and the share's `epoch` name the share; `attempt` may differ between tries.
    """

    @property
    def published(self) -> int:
        """Number of the share's first rows that are visible already; they are not written again."""
        ...

    def write(self, batch: SinkBatch) -> None:
        """Accepts rows, in order, from `published` on; may make them visible at once, or in parts. Raises ExternalError
        as soon as a write has failed permanently."""
        ...

    def finish(self) -> None:
        """Called after the last row: returns once every row is durable and visible. Raises ExternalError."""
        ...

    def close(self) -> None:
        """Releases all resources. Rows that are not visible yet never will be through this publisher. Idempotent."""
        ...
