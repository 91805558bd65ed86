"""Runs by the kernels against plain Python and polars: keys found, rows gathered, runs merged.

`fuzz/state_runs` compares both for as long as one wants.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.state import runs as module
from headrace.kernels.state.runs import AskedKeys, RunColumns, find, find_all, fits, gather, merge_order
from support.kernels.run_frames import (
    State,
    arrays_of,
    expected_matches,
    expected_merge,
    expected_rows,
    places_of,
    random_places,
    random_state,
    rows_difference,
)

SEEDS = st.integers(0, 2**32)
RUNS = st.sampled_from([1, 2, 3, 6, 32])
ROWS = st.sampled_from([1, 5, 70, 300])


def words_of(*words: int) -> module.Words:
    return np.array(words, np.uint64)


@given(SEEDS, RUNS, ROWS)
def test_the_first_run_with_a_key_is_found(seed: int, runs: int, rows: int) -> None:
    state = random_state(Random(seed), runs, rows, unique=True)
    expected = [places[0] if places else (-1, 0) for places in expected_matches(state)]
    assert places_of(*find(state.runs, state.asked_keys)) == expected


@given(SEEDS, RUNS, ROWS)
def test_every_row_with_a_key_is_found(seed: int, runs: int, rows: int) -> None:
    state = random_state(Random(seed), runs, rows, unique=False)
    asked_row, run, row = find_all(state.runs, state.asked_keys)
    expected = [(asked, *place) for asked, places in enumerate(expected_matches(state)) for place in places]
    assert list(zip(asked_row.tolist(), *zip(*places_of(run, row), strict=True), strict=True)) == expected or (
        not expected and not len(asked_row)
    )


@given(SEEDS, RUNS, ROWS)
def test_keys_are_found_in_any_order(seed: int, runs: int, rows: int) -> None:
    state = random_state(Random(seed), runs, rows, unique=True)
    order = np.random.default_rng(seed).permutation(len(state.asked_words)).astype(np.uint32)
    asked = AskedKeys(state.asked_words[order], state.asked, order)
    matches = expected_matches(state)
    assert places_of(*find(state.runs, asked)) == [matches[row][0] if matches[row] else (-1, 0) for row in order]
    found = [each.tolist() for each in find_all(state.runs, asked)]
    assert list(zip(*found, strict=True)) == [(row, *place) for row in order for place in matches[row]]


def test_an_order_leads_to_asked_rows() -> None:
    run = RunColumns(pl.DataFrame({"k": [1, 2]}), ["k"], words_of(1, 2))
    asked = AskedKeys(words_of(1, 2), pl.DataFrame({"k": [1, 2]}), np.array([0, 2], np.uint32))
    with pytest.raises(AssertionError, match="has the keys"):
        find([run], asked)


@given(SEEDS, RUNS, ROWS)
def test_rows_are_gathered_in_the_order_asked(seed: int, runs: int, rows: int) -> None:
    random = Random(seed)
    state = random_state(random, runs, rows, unique=False)
    places = random_places(random, state, random.choice([0, 1, 40, 500]))
    columns = state.runs[0].frame.columns
    chosen = random.sample(columns, random.randint(1, len(columns)))
    gathered = gather(state.runs, *arrays_of(places), chosen)
    assert rows_difference(gathered, expected_rows(state, places, chosen)) is None


@given(SEEDS, RUNS, ROWS, st.booleans())
def test_runs_are_merged_by_word(seed: int, runs: int, rows: int, unique: bool) -> None:
    state = random_state(Random(seed), runs, rows, unique=unique)
    assert places_of(*merge_order(state.runs, unique=unique)) == expected_merge(state, unique=unique)


def state_of(*texts: str) -> State:
    """One run with these keys, all of the same word, that are asked from the last to the first."""
    frame = pl.DataFrame({"k": texts, "n": range(len(texts))})
    words = np.full(len(texts), 7, np.uint64)
    return State(("k",), (RunColumns(frame, ["k"], words),), (words,), frame[::-1], words)


def test_texts_of_a_megabyte_are_keys() -> None:
    long = "x" * 1_000_000
    state = state_of("", long + "a", long + "b", "x", "x" * 12, "x" * 13)
    run, row = find(state.runs, state.asked_keys)
    assert row.tolist() == [5, 4, 3, 2, 1, 0]
    gathered = gather(state.runs, run, row, ["n", "k"])
    assert gathered.equals(state.asked.select("n", "k"))


def test_keys_may_differ_in_their_upper_half() -> None:
    frame = pl.DataFrame({"k": pl.Series([5, 5 + 2**64, 5 - 2**64], dtype=pl.Int128)})
    run = RunColumns(frame, ["k"], words_of(7, 7, 7))
    assert find([run], AskedKeys(words_of(7, 7, 7), frame[::-1]))[1].tolist() == [2, 1, 0]


def test_matches_beyond_the_first_room_are_found() -> None:
    frame = pl.DataFrame({"k": [1] * 100})
    run = RunColumns(frame, ["k"], np.full(100, 3, np.uint64))
    asked_row, run_numbers, row = find_all([run, run], AskedKeys(words_of(3), pl.DataFrame({"k": [1]})))
    assert asked_row.tolist() == [0] * 200
    assert run_numbers.tolist() == [0] * 100 + [1] * 100
    assert row.tolist() == [*range(100)] * 2


def test_without_runs_nothing_is_found() -> None:
    asked = pl.DataFrame({"k": [1, 2]})
    assert places_of(*find([], AskedKeys(words_of(1, 2), asked))) == [(-1, 0), (-1, 0)]
    assert [len(column) for column in find_all([], AskedKeys(words_of(1, 2), asked))] == [0, 0, 0]
    assert [len(column) for column in merge_order([], unique=True)] == [0, 0]


def test_a_run_without_words_is_gathered_and_not_searched() -> None:
    run = RunColumns(pl.DataFrame({"k": [5, 6], "v": ["a", None]}), ["k"], None)
    assert gather([run], *arrays_of([(0, 1), (0, 0)]), ["v"])["v"].to_list() == [None, "a"]
    with pytest.raises(AssertionError, match="all runs have words"):
        find([run], AskedKeys(words_of(1), pl.DataFrame({"k": [5]})))
    with pytest.raises(AssertionError, match="runs that are merged have words"):
        merge_order([run], unique=True)


def test_words_that_are_not_ascending_are_refused() -> None:
    with pytest.raises(AssertionError, match="the words are ascending"):
        RunColumns(pl.DataFrame({"k": [1, 2, 3]}), ["k"], words_of(1, 9, 8))


def test_keys_of_another_type_are_refused() -> None:
    run = RunColumns(pl.DataFrame({"k": [1]}), ["k"], words_of(1))
    with pytest.raises(AssertionError, match="and their types"):
        find([run], AskedKeys(words_of(1), pl.DataFrame({"k": ["1"]})))
    with pytest.raises(AssertionError, match="are keys"):
        RunColumns(pl.DataFrame({"k": [[1]]}), ["k"], None)


@pytest.mark.parametrize("place", [(0, 2), (1, 0)])
def test_a_place_outside_of_the_runs_is_refused(place: tuple[int, int]) -> None:
    run = RunColumns(pl.DataFrame({"k": [1, 2]}), ["k"], None)
    with pytest.raises(AssertionError, match="rows are inside of their runs"):
        gather([run], *arrays_of([place]), ["k"])


def test_columns_of_different_types_are_refused() -> None:
    texts = RunColumns(pl.DataFrame({"k": ["a"]}), ["k"], None)
    for other in (pl.Series("k", [1]), pl.Series("k", [1], pl.Int128), pl.Series("k", [True])):
        run = RunColumns(pl.DataFrame([other]), [], None)
        with pytest.raises(AssertionError, match="rows are inside of their runs"):
            gather([texts, run], *arrays_of([(0, 0), (1, 0)]), ["k"])


def test_more_text_than_views_can_refer_to_is_gathered_by_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TEXT_BYTES_MAX", 20)
    run = RunColumns(pl.DataFrame({"k": [1, 2], "v": ["x" * 13, "y" * 14]}), ["k"], None)
    places = arrays_of([(0, 1), (-1, 0), (0, 0)])
    assert gather([run], *places, ["v", "k"]).rows() == [("y" * 14, 2), (None, None), ("x" * 13, 1)]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(pl.Int64(), True), (pl.Float32(), True), (pl.Binary(), True), (pl.Boolean(), False), (pl.List(pl.Int8()), False)],
)
def test_types_of_keys(dtype: pl.DataType, expected: bool) -> None:
    assert fits({"k": dtype, "v": pl.List(pl.Int64())}, ["k"]) is expected


def test_too_many_keys_or_none_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"k{n}" for n in range(9)]
    schema = dict.fromkeys(names, pl.Int64())
    assert fits(schema, names[:8])
    assert not fits(schema, names)
    assert not fits(schema, [])
    monkeypatch.setattr(module, "is_loaded", lambda: False)
    assert not fits(schema, ["k0"])


def test_the_directory_is_small_and_as_fine_for_few_key_groups() -> None:
    rows = 80_000
    frame = pl.DataFrame({"k": range(rows)})
    sizes = [
        RunColumns(frame, ["k"], np.arange(rows, dtype=np.uint64) * np.uint64(step)).size_bytes
        for step in (1, 1 << 30, (1 << 64) // rows)
    ]
    assert all(rows / 2 <= size < rows * 2.1 for size in sizes), sizes


def test_a_mapped_file_is_not_copied(tmp_path: Path) -> None:
    rows = 50_000
    path = tmp_path / "run.arrow"
    frame = pl.DataFrame({"k": [f"a key of some length {n:06}" for n in range(rows)], "n": range(rows)})
    frame = frame.with_columns(pl.Series("word", range(rows), dtype=pl.UInt64))
    frame.write_ipc(
        path, compression="uncompressed", compat_level=pl.CompatLevel.newest(), record_batch_size=frame.height
    )
    before = pa.total_allocated_bytes()
    mapped = pl.DataFrame(pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0))
    run = RunColumns(mapped, ["k"], mapped["word"].to_numpy())
    assert pa.total_allocated_bytes() - before < rows
    ranges = [
        line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line
    ]
    inside = [(int(begin, 16), int(end, 16)) for begin, end in ranges]
    for name in ("k", "n"):
        array = run.frame[name].to_arrow(compat_level=pl.CompatLevel.newest())
        values = [buffer for buffer in array.buffers()[1:] if buffer is not None]
        assert values
        assert all(any(begin <= buffer.address < end for begin, end in inside) for buffer in values)
    del mapped
    gc.collect()
    asked = frame[[49_999, 0, 123]]
    run_numbers, row = find([run], AskedKeys(asked["word"].to_numpy(), asked.select("k")))
    assert row.tolist() == [49_999, 0, 123]
    assert gather([run], run_numbers, row, ["k", "n", "word"]).equals(asked)


LIMITED = """
import resource
import numpy as np
import polars as pl
from headrace.kernels.state.runs import RunColumns
from headrace.kernels.state.key_index import KeyIndex, sorted_order

rows = 4_000_000
frame = pl.DataFrame({"k": np.arange(rows)})
words = np.arange(rows, dtype=np.uint64)
index = KeyIndex([("k", pl.Int64())])
index.number(frame[:10])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20),) * 2)
for call in (
    lambda: RunColumns(frame, ["k"], words),
    lambda: sorted_order(words),
    lambda: index.number(frame),
):
    try:
        call()
    except MemoryError as error:
        print(str(error)[:30])
print(index.keys >= 10)
"""


def test_no_memory_is_an_error_that_names_what_has_none() -> None:
    run = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[0].startswith("no memory for the directory of"), run.stdout
    assert run.stdout.splitlines()[-1] == "True"
