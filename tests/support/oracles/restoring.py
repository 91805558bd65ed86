"""Operators cut at a barrier: their state through Parquet bytes into fresh operators of any parallelism."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import polars as pl

from headrace.operators.operator import MultiInputOperator, Operator, OperatorConfig
from headrace.state.parquet import read_row_groups, write_chunks
from headrace.state.redistribute import share
from headrace.state.row_groups import key_order
from headrace.state.snapshot import RestoredFrame, RestoredStates, StateSnapshot

MAX_PARALLELISM = 12


def restored(config: OperatorConfig, snapshots: Sequence[Sequence[StateSnapshot]], parallelism: int) -> list[Operator]:
    """Fresh operators with the state of those that the snapshots (one per old subtask) were taken of."""
    made = []
    for subtask in range(parallelism):
        states: defaultdict[str, list[pl.DataFrame]] = defaultdict(list)
        for snapshot in snapshots:
            for state in snapshot:
                order = key_order(state, MAX_PARALLELISM)
                frames = [frame for file in write_chunks(state.chunks, order) for frame in read_row_groups(file.data)]
                states[state.name] += [
                    share(frame, state.kind, state.keys, subtask, parallelism, MAX_PARALLELISM) for frame in frames
                ]
        operator = config.open()
        assert not isinstance(operator, MultiInputOperator)
        operator.restore(as_restored(states))
        made.append(operator)
    return made


def as_restored(states: Mapping[str, Sequence[pl.DataFrame]]) -> RestoredStates:
    """State name -> its frames, as an operator is given them."""
    return {name: [RestoredFrame(frame) for frame in frames] for name, frames in states.items()}
