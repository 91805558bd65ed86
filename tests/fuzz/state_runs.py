"""The kernels of keyed state against plain Python and polars, on random runs: `headrace.kernels.state`.

`PYTHONPATH=tests python -m fuzz.state_runs --seconds 60 --seed 1`
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

import numpy as np

from fuzz.command import Fuzzer, FuzzError, command
from headrace.kernels.state.key_index import KeyIndex, sorted_order
from headrace.kernels.state.runs import find, find_all, gather, merge_order
from support.kernels.group_frames import Group
from support.kernels.run_frames import (
    State,
    arrays_of,
    expected_matches,
    expected_merge,
    expected_rows,
    keys_of,
    places_of,
    random_places,
    random_state,
    rows_difference,
)


def batch(random: Random) -> Counter[str]:
    """Some runs, with each call that reads them, and the index of their keys. Raises FuzzError."""
    unique = random.random() < 0.5
    state = random_state(random, random.choice([1, 2, 3, 6, 32]), random.choice([1, 5, 70, 300]), unique=unique)
    rows = sum(run.frame.height for run in state.runs)
    return Counter(
        rows=rows,
        found=_check_find(state, unique=unique),
        gathered=_check_gather(random, state),
        merged=_check_merge(state, unique=unique),
        numbered=_check_index(state),
    )


def _check_find(state: State, *, unique: bool) -> int:
    matches = expected_matches(state)
    if unique:
        first = [places[0] if places else (-1, 0) for places in matches]
        _same("find", first, places_of(*find(state.runs, state.asked_keys)))
    asked_row, run, row = find_all(state.runs, state.asked_keys)
    expected = [(number, *place) for number, places in enumerate(matches) for place in places]
    _same("find_all", expected, list(zip(asked_row.tolist(), run.tolist(), row.tolist(), strict=True)))
    return len(expected)


def _check_gather(random: Random, state: State) -> int:
    places = random_places(random, state, random.choice([0, 1, 40, 500]))
    columns = state.runs[0].frame.columns
    gathered = gather(state.runs, *arrays_of(places), columns)
    if found := rows_difference(gathered, expected_rows(state, places, columns)):
        raise FuzzError(f"gather of {state.runs[0].frame.schema}: {found.text}")
    return len(places)


def _check_merge(state: State, *, unique: bool) -> int:
    merged = places_of(*merge_order(state.runs, unique=unique))
    _same("merge_order", expected_merge(state, unique=unique), merged)
    for words in (*state.words, np.concatenate(state.words)):
        _same("sorted_order", np.argsort(words, kind="stable").tolist(), sorted_order(words).tolist())
    return len(merged)


def _check_index(state: State) -> int:
    schema = state.runs[0].frame.schema
    index = KeyIndex([(name, schema[name]) for name in state.names])
    expected: dict[Group, int] = {}
    for run in state.runs:
        numbers = [expected.setdefault(key, len(expected)) for key in keys_of(run.frame, state.names)]
        _same("KeyIndex.number", numbers, index.number(run.frame).tolist())
    asked = [expected.get(key, -1) for key in keys_of(state.asked, state.names)]
    _same("KeyIndex.find", asked, index.find(state.asked).tolist())
    return len(expected)


def _same(call: str, expected: object, found: object) -> None:
    if expected != found:
        raise FuzzError(f"{call}: {found}, expected {expected}")


def verdict(counts: Counter[str]) -> None:
    """Raises FuzzError if nothing was compared."""
    if missing := [name for name in ("found", "gathered", "merged", "numbered") if not counts[name]]:
        raise FuzzError(f"no rows were {missing}")


FUZZER = Fuzzer("fuzz.state_runs", batch, verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
