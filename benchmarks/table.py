"""The table of keyed state in this process: lookups, a running aggregate's batch, barriers while merges run, a restore.

10 M keys by default: a text of 24 bytes, two int64 values and the time of the last row. Prints medians of rounds with
their spread, in CPU time of the process, and the machine's load.

    get      1,000 random keys at a time, four columns, from six runs, in memory and in local files: us a key
    batch    of 1,000 rows, random keys, of a running aggregate with half as many keys, in memory and with 64 MiB: ms
    barrier  `seal` and `chunks` after every 32,768 rows, while merges run, in memory and with 64 MiB: the longest of
             60 in ms, by the clock, and in CPU time of the task's thread. Rows wait for merges where these fall behind
    restore  of state files from 2 subtasks to 3, local storage: CPU seconds of all three
    merge    of the six runs to one: ns of CPU a row

    python benchmarks/table.py [--keys N] [--rounds N] [--only get] ..
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import running

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.core.group_ranges import group_span
from headrace.operators.aggregates.columns import MAX, SUM
from headrace.operators.aggregates.compiled import merged_groups
from headrace.state.parquet import checksum, write_chunks
from headrace.state.place import Budget, Made, StatePlace
from headrace.state.redistribute import share
from headrace.state.restoring import restore
from headrace.state.row_groups import KeyOrder
from headrace.state.runs import PART_ROWS_MAX, RUNS_MAX
from headrace.state.snapshot import Chunk, RestoredFrame, StateKind
from headrace.state.table import Table
from headrace.worker.state.local_files import LocalFiles
from headrace.worker.state.opened_place import BackgroundMerges
from headrace.worker.state.restore import restored_states

ASKED_ROWS, ASKED_TIMES = 1_000, 200
SHARES = (0.8, 0.05, 0.05, 0.05, 0.025, 0.025)
EPOCHS, EPOCH_ROWS = 60, 32_768
BATCHES, MEMORY_BYTES = 200, 64 << 20
PARALLELISM, RESTORED_PARALLELISM, MAX_PARALLELISM = 2, 3, 128
KEY = "key"
COLUMNS = (f"{SUM}n", f"{SUM}total", f"{MAX}ts")
ORDER = KeyOrder((KEY,), MAX_PARALLELISM)


def rows_of(numbers: np.ndarray, random: np.random.Generator) -> pl.DataFrame:
    keys = pl.DataFrame({KEY: numbers}).select(pl.format("device-{}", pl.col(KEY).cast(pl.String).str.zfill(17)))
    values = [pl.Series(name, random.integers(0, 1 << 40, keys.height)) for name in COLUMNS]
    return keys.rename({keys.columns[0]: KEY}).with_columns(*values)


def merge(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    merged = merged_groups(frames, [KEY])
    assert merged is not None, "the kernel merges these columns"
    return merged


def pieces(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows as a merge divides them."""
    yield from ORDER.sort(rows).frame.iter_slices(PART_ROWS_MAX)


def restored(keys: int, place: StatePlace) -> Table:
    """A table with as many keys in six runs."""
    random, begin, table = np.random.default_rng(1), 0, Table.merging([KEY], merge, place)
    numbers = random.permutation(keys)
    for each in SHARES:
        end = begin + int(keys * each)
        restore(table, map(RestoredFrame, pieces(rows_of(numbers[begin:end], random))))
        begin = end
    return table


def in_memory() -> StatePlace:
    return StatePlace(MAX_PARALLELISM, merges=BackgroundMerges())


def in_files(limit_bytes: int = 0) -> StatePlace:
    files = LocalFiles(Path(tempfile.gettempdir()))
    return StatePlace(MAX_PARALLELISM, Budget(limit_bytes), BackgroundMerges(), files)


def shown(name: str, figures: Sequence[float], unit: str) -> None:
    low, high = min(figures), max(figures)
    load = os.getloadavg()[0]
    print(f"{name:32s} {statistics.median(figures):8.2f} {unit} ({low:.2f} to {high:.2f}, load {load:.1f})", flush=True)


def cpu_of(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


# ---- what is measured ------------------------------------------------------------------------------------------------


def get(keys: int, rounds: int) -> None:
    for name, place in (("memory", in_memory()), ("local files", in_files())):
        table, random = restored(keys, place), np.random.default_rng(2)
        asked = [
            rows_of(random.choice(int(keys * 0.9), ASKED_ROWS, replace=False), random).select(KEY)
            for _ in range(ASKED_TIMES)
        ]

        def look(table: Table = table, asked: Sequence[pl.DataFrame] = asked) -> None:
            for each in asked:
                assert sum(frame.height for frame in table.get(each)) > 0, "keys are found"

        look()
        taken = [cpu_of(look) / ASKED_TIMES / ASKED_ROWS * 1e6 for _ in range(rounds)]
        shown(f"get, {name}, {table.runs} runs", taken, "us a key")


def batch(keys: int, rounds: int) -> None:
    random = np.random.default_rng(1)
    for name, place in (("memory", in_memory()), ("64 MiB", in_files(MEMORY_BYTES))):
        operator = running.filled(keys // 2, random, place)
        running.batch_ms(operator, keys // 2, BATCHES, random)
        taken = [statistics.median(running.batch_ms(operator, keys // 2, BATCHES, random)) for _ in range(rounds)]
        shown(f"batch, {name}", taken, "ms a batch")


def barrier(keys: int, rounds: int) -> None:
    for name, opened in (("memory", in_memory()), ("64 MiB", in_files(MEMORY_BYTES))):
        merges = Merges()
        table, random = restored(keys, replace(opened, merges=merges)), np.random.default_rng(3)
        clocks, thread = [], []
        for _ in range(rounds):
            stops = []
            for _ in range(EPOCHS):
                stops.append(stop(table, keys, random))
                if table.runs > RUNS_MAX // 2:
                    merges.wait()
            clocks.append(max(each for each, _ in stops))
            thread.append(max(each for _, each in stops))
        shown(f"barrier, {name}, clock", clocks, "ms at most")
        shown(f"barrier, {name}, CPU", thread, "ms at most")


class Merges(BackgroundMerges):
    """Merges in threads, for which a job waits that has no pause between its epochs."""

    def start(self, merge: Callable[[], Made]) -> Future[Made]:
        self.newest: Future[Any] = super().start(merge)
        return self.newest

    def wait(self) -> None:
        self.newest.result()


def stop(table: Table, keys: int, random: np.random.Generator) -> tuple[float, float]:
    """The milliseconds of one barrier: by the clock, and CPU time of this thread."""
    for rows in rows_of(random.choice(keys, EPOCH_ROWS, replace=False), random).iter_slices(ASKED_ROWS):
        table.add(rows)
    begin = time.perf_counter(), time.thread_time()
    table.seal()
    table.chunks()
    return (time.perf_counter() - begin[0]) * 1e3, (time.thread_time() - begin[1]) * 1e3


def restores(keys: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-table-") as folder:
        handles = written(keys, Path(folder))

        def read(path: str, offset: int, /, *, length: int) -> bytes:
            with Path(path).open("rb") as file:
                file.seek(offset)
                return file.read(length)

        def all_subtasks() -> None:
            rows = 0
            for subtask in range(RESTORED_PARALLELISM):
                own = partial(restored_states, handles, ["totals"], subtask, of=RESTORED_PARALLELISM)
                table = Table.merging([KEY], merge, in_memory())
                restore(table, own(max_parallelism=MAX_PARALLELISM, read=read)["totals"]["groups"])
                rows += table.rows
            assert rows == sum(handle.rows for handle in handles), f"{rows} rows are restored"

        all_subtasks()
        shown("restore, memory", [cpu_of(all_subtasks) for _ in range(rounds)], "CPU-s")


def written(keys: int, folder: Path) -> list[StateHandle]:
    """State files of two subtasks, as checkpoints write them."""
    random, handles = np.random.default_rng(4), []
    rows = rows_of(random.permutation(keys), random)
    for subtask in range(PARALLELISM):
        span = group_span(subtask, PARALLELISM, MAX_PARALLELISM)
        own = share(rows, StateKind.KEYED, [KEY], subtask, PARALLELISM, MAX_PARALLELISM)
        parts: list[FilePart] = []
        chunks = (Chunk(number, piece) for number, piece in enumerate(pieces(own)))
        for file in write_chunks(chunks, ORDER):
            path = folder / f"{subtask}-{len(parts)}.parquet"
            path.write_bytes(file.data)
            parts.append(
                FilePart(
                    path=str(path),
                    row_groups=tuple(range(len(file.rows))),
                    rows=sum(file.rows),
                    bytes=len(file.data),
                    checksum=checksum(file.data),
                )
            )
        handles.append(
            StateHandle(
                node="totals",
                state="groups",
                kind=StateKind.KEYED,
                keys=(KEY,),
                subtask=subtask,
                first_group=span[0],
                last_group=span[1],
                columns={name: str(dtype) for name, dtype in own.schema.items()},
                files=tuple(parts),
            )
        )
    return handles


def merging(keys: int, rounds: int) -> None:
    for name, opened in (("memory", in_memory), ("local files", in_files)):
        taken = [cpu_of(restored(keys, opened()).compact) / keys * 1e9 for _ in range(rounds)]
        shown(f"merge, {name}", taken, "ns a row")


MEASURED = {"get": get, "batch": batch, "barrier": barrier, "restore": restores, "merge": merging}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=MEASURED)
    asked = parser.parse_args()
    for name in asked.only or MEASURED:
        MEASURED[name](asked.keys, asked.rounds)


if __name__ == "__main__":
    main()
