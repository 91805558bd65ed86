"""Passes all rows of a task into its chain, then advances time once. A chain whose state exceeds memory is spilled to
local disk, partitioned by the hash of the key (as a grace hash join does).

    rows ──> chain                          as long as the state of its operators stays below a bound
               │ above the bound
               v
    current states and all later rows ──> local disk, in BUCKETS shares by the hash of their key
    at the end, share by share:  a new chain, its states, its rows, time, its snapshot        (a share that is still too
                                                                                               large is divided again)

The rows of each input are divided by their own keys. Shares divide key groups, so a single key group may exceed memory.
A task stays in memory if the rows of an input have no key, or if its steps keep state by other keys than those that
partition its rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from headrace.core.keygroups import key_groups
from headrace.core.signals import TIME_MIN, Barrier, Watermark
from headrace.exchange.edge.partition import split_by
from headrace.exchange.edge.rows import frames_of
from headrace.operators.aggregation.combining import CombiningOperator, Partials, split_partials
from headrace.plan.physical import keys_of
from headrace.spark.levels.envelope import decode_partials, decode_rows, encode_partials, encode_rows
from headrace.spark.task.open_task import OpenTask
from headrace.state.snapshot import RestoredFrame, StateKind, StateSnapshot
from headrace.worker.state.restore import NodeStates

BUCKETS = 16
DEPTH_MAX = 3
"""Most divisions of a share: into `BUCKETS` shares each time, so into 4,096 in total."""
MEASURE_BYTES = 32 * 1024 * 1024
"""Bytes of rows between two measurements of the operators' state."""
_LENGTH_BYTES = 8
Keys = tuple[tuple[str, ...], ...]
"""Of each input of a task, by number: the columns by which its rows are spread."""


class SpillingChain:
    """The chain of one task, or of one share of its keys. Used by one thread."""

    def __init__(self, task: OpenTask, restored: NodeStates | None = None, depth: int = 0) -> None:
        self._task = task
        self._depth = depth
        self._chain = task.open_chain(restored)
        self._inputs = self._chain.inputs()
        self._head = self._inputs[0]
        self._keys = keys_of(task.plan.inputs(task.task.name)) if depth < DEPTH_MAX else None
        self._taken_bytes = 0
        self._shares: _Shares | None = None

    def on_input(self, number: int, batch: pl.DataFrame) -> None:
        """Processes rows of an input, or writes them to the shares on disk."""
        if self._shares is not None:
            self._shares.add_rows(number, batch)
            return
        self._inputs[number].on_batch(batch)
        self._grown(batch)

    def on_partials(self, partials: Partials) -> None:
        """Processes partial aggregates of the task's first step, or writes them to the shares on disk."""
        if self._shares is not None:
            self._shares.add_partials(partials)
            return
        operator = self._chain.steps[self._task.task.nodes[0].node]
        assert isinstance(operator, CombiningOperator), "only a step with a combiner receives partial aggregates"
        operator.take_partials(partials)
        self._grown(*partials.parts)

    def _grown(self, *frames: pl.DataFrame) -> None:
        """Measures the chain's state after every `MEASURE_BYTES` of rows."""
        if self._keys is None:
            return
        self._taken_bytes += sum(int(frame.estimated_size()) for frame in frames)
        if self._taken_bytes >= min(MEASURE_BYTES, self._task.order.state_bytes_max):
            self._taken_bytes = 0
            if self._held_bytes() > self._task.order.state_bytes_max:
                self._divide(self._keys)

    def end(self, watermark: int) -> Iterator[None]:
        """All rows have arrived: advances time to `watermark`, then writes the states. A generator, so that the caller
        can send output in between.
        """
        if self._shares is None:
            if watermark > TIME_MIN:
                self._head.on_signal(Watermark(watermark))
                yield
            self._head.on_signal(Barrier(self._task.order.epoch))
            self._task.keep_states()
            self._task.drop_chain(self._chain)
            yield
            return
        with self._shares as shares:
            for number in range(BUCKETS):
                share = SpillingChain(self._task, shares.states(number), self._depth + 1)
                for partials in shares.partials(number):
                    share.on_partials(partials)
                    yield
                for input_number, rows in shares.rows(number):
                    share.on_input(input_number, rows)
                    yield
                yield from share.end(watermark)

    def _held_bytes(self) -> int:
        return sum(
            int(chunk.frame.estimated_size())
            for operator in self._chain.steps.values()
            for state in operator.snapshot()
            for chunk in state.chunks
        )

    def _divide(self, keys: Keys) -> None:
        """Moves the chain's state to shares on disk; all later rows go there too."""
        steps = self._chain.steps.values()
        # a state that cannot be divided by the rows' keys keeps the whole task in memory
        if not all(_follows(state, keys) for operator in steps for state in operator.snapshot()):
            self._keys = None
            return
        # the barrier makes the operators return their states; here they are divided, not written
        self._head.on_signal(Barrier(self._task.order.epoch))
        shares = _Shares(keys, self._task.plan.max_parallelism, self._depth)
        for node, state in self._task.take_states():
            shares.add_state(node, state)
        self._task.drop_chain(self._chain)
        self._shares = shares


def _follows(state: StateSnapshot, keys: Keys) -> bool:
    """Whether a state's rows can be divided like the rows of an input of the task."""
    return state.kind is StateKind.UNION or (state.kind is StateKind.KEYED and state.keys in keys)


@dataclass(frozen=True, slots=True)
class _State:
    """A state on disk. keys: those that divide it; None: every share receives all of it."""

    node: str
    name: str
    keys: tuple[str, ...] | None


class _Shares:
    """States and rows on local disk, by share. Deleted when the context ends."""

    def __init__(self, keys: Keys, max_parallelism: int, depth: int) -> None:
        self._keys = keys
        # finer than key groups: the lower part of the number is the key group, or the share that this one divides
        self._above = max_parallelism * BUCKETS**depth
        self._folder = TemporaryDirectory(prefix="headrace-shares-", dir=_local_disk(), ignore_cleanup_errors=True)
        self._states: list[_State] = []

    def __enter__(self) -> _Shares:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def add_rows(self, input_number: int, batch: pl.DataFrame) -> None:
        """Appends rows of an input."""
        for number, rows in self._divided(batch, self._keys[input_number]):
            self._append(f"rows-{number}-{input_number}", encode_rows(rows))

    def add_partials(self, partials: Partials) -> None:
        """Appends partial aggregates."""
        # a step with a combiner has one input
        (keys,) = self._keys
        for number, own in split_partials(partials, lambda rows: self._divided(rows, keys)):
            self._append(f"partials-{number}", encode_partials(own))

    def add_state(self, node: str, state: StateSnapshot) -> None:
        """Appends a state."""
        kept = _State(node, state.name, None if state.kind is StateKind.UNION else state.keys)
        place = len(self._states)
        self._states.append(kept)
        for chunk in state.chunks:
            if not chunk.frame.height:
                continue
            whole = ((number, chunk.frame) for number in range(BUCKETS))
            for number, frame in whole if kept.keys is None else self._divided(chunk.frame, kept.keys):
                self._append(f"state-{place}-{number}", encode_rows(frame))

    def rows(self, number: int) -> Iterator[tuple[int, pl.DataFrame]]:
        """Returns the rows of a share, input by input, each in its order of arrival."""
        for input_number in range(len(self._keys)):
            for data in self._read(f"rows-{number}-{input_number}"):
                yield input_number, decode_rows(data)

    def partials(self, number: int) -> Iterator[Partials]:
        """Returns the partial aggregates of a share."""
        return map(decode_partials, self._read(f"partials-{number}"))

    def states(self, number: int) -> NodeStates:
        """Returns the states of a share."""
        states: dict[str, dict[str, list[RestoredFrame]]] = {}
        for place, state in enumerate(self._states):
            states.setdefault(state.node, {})[state.name] = [
                RestoredFrame(decode_rows(data)) for data in self._read(f"state-{place}-{number}")
            ]
        return states

    def _divided(self, frame: pl.DataFrame, keys: tuple[str, ...]) -> list[tuple[int, pl.DataFrame]]:
        numbers = key_groups(frame, keys, self._above * BUCKETS) // self._above
        return frames_of(split_by(frame, numbers.astype(np.uint16), BUCKETS))

    def _append(self, name: str, data: bytes) -> None:
        with (Path(self._folder.name) / name).open("ab") as file:
            file.write(len(data).to_bytes(_LENGTH_BYTES, "little"))
            file.write(data)

    def _read(self, name: str) -> Iterator[bytes]:
        path = Path(self._folder.name) / name
        if not path.exists():
            return
        with path.open("rb") as file:
            while head := file.read(_LENGTH_BYTES):
                yield file.read(int.from_bytes(head, "little"))


def _local_disk() -> str | None:
    """Returns Spark's folder on local disk; None: the system's."""
    named = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return named if named and Path(named).is_dir() else None
