"""Reads the content of a checkpoint or savepoint: a summary of its states, and the rows of one state as a frame."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from headrace.checkpoint.manifest import Manifest, StateHandle
from headrace.checkpoint.savepoints.savepoint import checked_read
from headrace.core.errors import UserError, did_you_mean
from headrace.state.parquet import read_row_groups
from headrace.state.snapshot import StateKind


@dataclass(frozen=True, slots=True)
class StoredState:
    """One state over all subtasks that wrote it. bytes: size of its files, which may contain other rows too."""

    node: str
    state: str
    kind: str
    keys: tuple[str, ...]
    rows: int
    bytes: int
    columns: dict[str, str]
    handles: tuple[StateHandle, ...]


def states_of(manifest: Manifest) -> list[StoredState]:
    """All states, by node and name."""
    grouped: dict[tuple[str, str], list[StateHandle]] = {}
    for handle in manifest.states:
        grouped.setdefault((handle.node, handle.state), []).append(handle)
    return [_stored(sorted(grouped[key], key=lambda handle: handle.subtask)) for key in sorted(grouped)]


NAMING = "--node {node} --state {state}"
"""The command-line options that select a state."""


def chosen_state(manifest: Manifest, node: str | None, state: str | None, naming: str = NAMING) -> StoredState:
    """The selected state. Raises UserError with the choice, rendered by `naming`, unless exactly one matches."""
    states = states_of(manifest)
    if not states:
        raise UserError(f"{manifest.kind} {manifest.epoch} of {manifest.pipeline} holds no state but source positions")
    found = [each for each in states if node in {None, each.node} and state in {None, each.state}]
    if len(found) == 1:
        return found[0]
    choice = ", ".join(naming.format(node=each.node, state=each.state) for each in (found or states)[:20])
    if found:
        raise UserError(f"it holds {len(found)} states", remedy=f"name one: {choice}")
    near = None if node is None else did_you_mean(node, tuple({each.node for each in states}))
    asked = " of ".join(
        [*(f"state {text!r}" for text in [state] if text), *(f"node {text!r}" for text in [node] if text)]
    )
    raise UserError(f"there is no {asked}", remedy=near or f"it has: {choice}")


def rows_of(stored: StoredState) -> pl.DataFrame:
    """All rows of a state of a located manifest. Raises CorruptFileError, ExternalError."""
    frames = [
        frame
        for handle in stored.handles
        for part in handle.files
        for frame in read_row_groups(checked_read(part), part.row_groups)
    ]
    if not frames:
        return pl.DataFrame(schema=dict.fromkeys(stored.columns, pl.Null))
    # files of another version may have other columns
    return pl.concat(frames, how="diagonal_relaxed", rechunk=False)


def write_rows(rows: pl.DataFrame, target: Path) -> None:
    """Writes Parquet for any reader: 128-bit integers become decimals. Raises UserError."""
    wide = [name for name, dtype in rows.schema.items() if dtype == pl.Int128]
    try:
        rows.with_columns(pl.col(name).cast(pl.Decimal(38, 0)) for name in wide).write_parquet(target)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror or error}") from error


def _stored(handles: list[StateHandle]) -> StoredState:
    first = handles[0]
    if first.kind == StateKind.BROADCAST:
        handles = handles[:1]  # every copy is the same
    files = {part.path: part.bytes for handle in handles for part in handle.files}
    columns = {name: dtype for handle in handles for name, dtype in handle.columns.items()}
    rows = sum(handle.rows for handle in handles)
    return StoredState(
        first.node, first.state, first.kind, first.keys, rows, sum(files.values()), columns, tuple(handles)
    )
