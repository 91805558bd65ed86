"""Keyed state in runs: rows found by key and gathered, from memory and from mapped files; runs sorted and merged.

10 M keys by default, of 24 bytes (a text, or two int64 with one int64 between them), and four values of 8 bytes, in six
runs: one of 80 % of the rows and five of 4 %. Prints nanoseconds of CPU and of wall time, for each key or row: medians.

    python benchmarks/state_runs.py [keys] [rounds]
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.kernels.group.key_hash import key_hash
from headrace.kernels.state.key_index import KeyIndex, sorted_order
from headrace.kernels.state.runs import AskedKeys, RunColumns, find, gather, merge_order

ASKED_ROWS = 1_000
ASKED_MAX = 300_000
SHARES = (0.04, 0.04, 0.04, 0.04, 0.04, 0.8)
VALUES = ("n", "total", "low", "seen")
WORD = "__word"
Keys = Callable[[np.ndarray], pl.DataFrame]


def text_keys(numbers: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"id": numbers}).select(pl.format("device-{}", pl.col("id").cast(pl.String).str.zfill(17)))


def number_keys(numbers: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"a": numbers, "b": numbers % 1_000, "c": numbers // 7})


def words_of(keys: pl.DataFrame) -> np.ndarray:
    return key_hash(keys, keys.columns)


def frames_of(keys: Keys, count: int) -> list[pl.DataFrame]:
    """The rows of each run, sorted by word."""
    random, frames, begin = np.random.default_rng(1), [], 0
    numbers = random.permutation(count)
    for share in SHARES:
        frame = keys(numbers[begin : begin + int(count * share)])
        begin += frame.height
        values = [pl.Series(name, random.integers(0, 1 << 40, frame.height)) for name in VALUES]
        words = words_of(frame)
        frame = frame.with_columns(*values, pl.Series(WORD, words))
        frames.append(frame[pl.Series(sorted_order(words))])
    return frames


def opened(frames: Sequence[pl.DataFrame]) -> list[RunColumns]:
    return [
        RunColumns(frame, [name for name in frame.columns if name not in (*VALUES, WORD)], frame[WORD].to_numpy())
        for frame in frames
    ]


def mapped(frames: Sequence[pl.DataFrame], folder: Path) -> list[pl.DataFrame]:
    """The same rows in files, which are mapped."""
    made = []
    for index, frame in enumerate(frames):
        path = folder / f"{index}.arrow"
        newest = pl.CompatLevel.newest()
        frame.write_ipc(path, compression="uncompressed", compat_level=newest, record_batch_size=frame.height)
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        assert file.num_record_batches == 1, "one chunk is mapped without a copy"
        made.append(pl.DataFrame(file.get_batch(0)))
    return made


def asked_of(keys: Keys, count: int) -> list[tuple[pl.DataFrame, np.ndarray]]:
    numbers = np.random.default_rng(2).integers(0, int(count * sum(SHARES)), min(ASKED_MAX, count))
    permutation = np.random.default_rng(1).permutation(count)
    whole = keys(permutation[numbers])
    return [(piece.rechunk(), words_of(piece)) for piece in whole.iter_slices(ASKED_ROWS)]


def measured(name: str, rows: int, run: Callable[[], None], rounds: int) -> None:
    cpu, wall = [], []
    for _ in range(rounds):
        begin = time.process_time(), time.perf_counter()
        run()
        cpu.append((time.process_time() - begin[0]) / rows * 1e9)
        wall.append((time.perf_counter() - begin[1]) / rows * 1e9)
    low, high = min(cpu), max(cpu)
    print(
        f"{name:44s} {statistics.median(cpu):6.0f} ns CPU ({low:.0f} to {high:.0f}), {statistics.median(wall):6.0f} ns"
    )


def lookups(name: str, runs: Sequence[RunColumns], asked: list[tuple[pl.DataFrame, np.ndarray]], rounds: int) -> None:
    rows = sum(len(words) for _, words in asked)
    columns = [*runs[0].keys, *VALUES]

    def only_find() -> None:
        for keys, words in asked:
            find(runs, AskedKeys(words, keys))

    def find_and_gather(chosen: Sequence[str]) -> None:
        for keys, words in asked:
            run, row = find(runs, AskedKeys(words, keys))
            assert run.min() >= 0, "every key is there"
            gather(runs, run, row, chosen)

    measured(f"{name}: find", rows, only_find, rounds)
    measured(f"{name}: find, gather 4 values", rows, lambda: find_and_gather(VALUES), rounds)
    measured(f"{name}: find, gather keys and 4 values", rows, lambda: find_and_gather(columns), rounds)


def whole_runs(name: str, runs: Sequence[RunColumns], rounds: int) -> None:
    rows = sum(run.frame.height for run in runs)
    words = runs[-1].frame[WORD].to_numpy()
    shuffled = np.random.default_rng(3).permutation(words)
    measured(f"{name}: sorted_order", len(words), lambda: void(sorted_order(shuffled)), rounds)
    measured(f"{name}: numpy's stable argsort", len(words), lambda: void(np.argsort(shuffled, kind="stable")), 1)
    measured(f"{name}: merge_order of 6 runs", rows, lambda: void(merge_order(runs, unique=True)), rounds)
    run, row = merge_order(runs, unique=True)
    measured(f"{name}: gather all columns merged", rows, lambda: void(gather(runs, run, row, runs[0].frame.columns)), 1)
    recent = runs[0].frame
    dtypes = [(key, recent.schema[key]) for key in runs[0].keys]
    measured(f"{name}: index of new keys", recent.height, lambda: void(KeyIndex(dtypes).number(recent)), rounds)


def void(_: object) -> None:
    """Drops a result."""


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    cases: dict[str, Keys] = {"text": text_keys, "3 int64": number_keys}
    for name, keys in cases.items():
        frames = frames_of(keys, count)
        asked = asked_of(keys, count)
        runs = opened(frames)
        size = sum(run.size_bytes for run in runs) / sum(run.frame.height for run in runs)
        print(f"{name}: {size:.2f} bytes a row beside the frames")
        lookups(f"{name}, memory", runs, asked, rounds)
        whole_runs(name, runs, rounds)
        with tempfile.TemporaryDirectory(prefix="headrace-runs-") as folder:
            lookups(f"{name}, mapped", opened(mapped(frames, Path(folder))), asked, rounds)


if __name__ == "__main__":
    main()
