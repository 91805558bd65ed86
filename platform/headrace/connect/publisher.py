"""The publisher contract: staged result rows reach a sink once, however often that is tried.

An engine that computes first and writes afterwards (a replay on Spark) stages result rows in files, decides in its
journal that they are the result, and only then publishes them. From there on there is no way back, only forward: a
publisher that died is followed by another one with the same rows.

    decision (journal) ─> open_publisher(share 0) ─> published: 0 ─> write all rows     ─> finish
                                                 crash
                          open_publisher(share 0) ─> published: k ─> write rows from k  ─> finish ─> `committed`

A **share** is what one subtask made for one sink in one epoch: rows in a fixed order, the same at every try. Shares of
one sink are independent of each other and may be published at the same time, by other processes; of a share only the
newest publisher may still have an effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.connect.sink import SinkBatch


@dataclass(frozen=True, slots=True)
class Share:
    """Which rows a publisher publishes, beside what the sink's context says (job, node, subtask, schema).

    epoch   of the job, from 1 on
    rows    in all of it
    """

    epoch: int
    rows: int


class Publisher(Protocol):
    """The live half of a sink for staged rows; used by one thread. Opening it shuts out every earlier one of the share.

    The context's `job`, `subtask` and the share's `epoch` name the share; `attempt` may differ between tries.
    """

    @property
    def published(self) -> int:
        """How many of the share's first rows are visible already: they are not written again."""
        ...

    def write(self, batch: SinkBatch) -> None:
        """Takes rows, in order, from `published` on; may make them visible at once, or part by part.

        Raises ExternalError as soon as a write is known to have failed for good.
        """
        ...

    def finish(self) -> None:
        """All rows were written: returns when every one of them is durable and visible. Raises ExternalError."""
        ...

    def close(self) -> None:
        """Releases what it holds; rows that are not visible yet never will be by this publisher. Idempotent."""
        ...
