"""A job as a bare loop: consume, parse, compute, serialise, produce, commit each second. No engine, one Python thread.

usage: python -m peers.contenders.bare_loop transactional|batch WORK BROKERS SOURCE SINK END FOLDER

It reads each partition of SOURCE up to offset END. It checks nothing: late rows would give wrong results, and text of
times, dates, decimals and bytes is copied unchanged. Snapshots of open windows are written to FOLDER.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from bare_steps.window_state import WindowState

from peers import events, wide_rows
from peers.contenders.bare_client import BareClient, Polled
from peers.jobs import CHECKPOINT_MS, OUT_OF_ORDER_MS, PARTITIONS, WINDOW_MS, Work

BATCH_ROWS = {Work.WINDOW: 64_000, Work.FILTER: 16_000, Work.WIDE: 8_000}
END_OF_TIME_MS = 1 << 60


class BareLoop:
    """end: the offset after the last row of each partition."""

    def __init__(self, work: Work, client: BareClient, end: int, folder: Path) -> None:
        self._work, self._client, self._end, self._folder = work, client, end, folder
        self._positions = dict.fromkeys(range(PARTITIONS), 0)
        self._newest_ms = dict.fromkeys(range(PARTITIONS), 0)
        self._windows = WindowState(WINDOW_MS)

    def run(self) -> None:
        """Returns when everything is committed."""
        commit_due = time.monotonic() + CHECKPOINT_MS / 1000
        while min(self._positions.values()) < self._end:
            polled = self._client.poll()
            if polled is not None:
                self._take(polled)
            if time.monotonic() > commit_due:
                self._commit()
                commit_due = time.monotonic() + CHECKPOINT_MS / 1000
        self._close_windows(END_OF_TIME_MS)
        self._commit()

    def _take(self, polled: Polled) -> None:
        parts = list(self._kept(polled))
        whole = sum(part.height for part in parts) == polled.rows.height
        rows = polled.rows if whole else pl.concat([polled.rows.clear(), *parts])
        match self._work:
            case Work.FILTER:
                self._client.send(rows.filter(pl.col("v") > 0.5))
            case Work.WIDE:
                self._client.send(rows.filter(pl.col("quantity") > wide_rows.QUANTITY_LIMIT))
            case Work.WINDOW:
                self._windows.add(rows)
                self._close_windows(min(self._newest_ms.values()) - OUT_OF_ORDER_MS - 1)

    def _kept(self, polled: Polled) -> Iterator[pl.DataFrame]:
        """Yields the rows of each run before the end, and advances positions and times."""
        for run in polled.runs:
            length = min(run.length, self._end - run.offset)
            if length <= 0:
                continue  # prefetched, from behind the end
            self._positions[run.partition] = run.offset + length
            if run.offset + length == self._end:
                self._client.finish(run.partition)
            rows = polled.rows.slice(run.begin, length)
            if self._work is Work.WINDOW:
                newest_ms = rows["ts"].max()
                assert isinstance(newest_ms, int), "a run has rows, and their times are whole numbers"
                self._newest_ms[run.partition] = max(self._newest_ms[run.partition], newest_ms)
            yield rows

    def _close_windows(self, watermark_ms: int) -> None:
        for results in self._windows.close(watermark_ms):
            self._client.send(results)

    def _commit(self) -> None:
        if self._work is Work.WINDOW:
            self._windows.snapshot(self._folder / "windows.arrow")
        self._client.commit(self._positions)


def open_client(kind: str, work: Work, brokers: str, source: str, sink: str) -> BareClient:
    schema = wide_rows.schema() if work is Work.WIDE else events.SCHEMA
    if kind == "batch":
        from peers.contenders.batch_client import BatchClient

        return BatchClient(brokers, source, sink, schema, batch_rows=BATCH_ROWS[work])
    from peers.contenders.transactional_client import TransactionalClient

    return TransactionalClient(brokers, source, sink, schema, batch_rows=BATCH_ROWS[work])


def main(arguments: list[str]) -> None:
    kind, work, brokers, source, sink, end, folder = arguments
    # no cycles are made, and looking for them among messages takes time
    gc.disable()
    client = open_client(kind, Work(work), brokers, source, sink)
    BareLoop(Work(work), client, int(end), Path(folder)).run()
    client.close()


if __name__ == "__main__":
    main(sys.argv[1:])
