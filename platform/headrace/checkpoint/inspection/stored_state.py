"""The states of a checkpoint or savepoint by node and name, over all subtasks that wrote them. Reads no rows."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoint.manifest import Manifest, StateHandle
from headrace.core.errors import UserError, did_you_mean
from headrace.state.snapshot import StateKind


@dataclass(frozen=True, slots=True)
class StoredState:
    """One state over all subtasks that wrote it.

    bytes        size of its files, which may contain other rows too
    origin       what it is a state of: `checkpoint 7 of flight-delays`
    is_pruned    the job deletes its files when it has newer checkpoints
    """

    node: str
    state: str
    kind: str
    keys: tuple[str, ...]
    rows: int
    bytes: int
    columns: dict[str, str]
    handles: tuple[StateHandle, ...]
    max_parallelism: int
    origin: str
    is_pruned: bool


def states_of(manifest: Manifest) -> list[StoredState]:
    """All states, by node and name."""
    grouped: dict[tuple[str, str], list[StateHandle]] = {}
    for handle in manifest.states:
        grouped.setdefault((handle.node, handle.state), []).append(handle)
    return [_stored(manifest, sorted(grouped[key], key=lambda handle: handle.subtask)) for key in sorted(grouped)]


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
    own = [each for each in states if each.node == node]
    choice = ", ".join(naming.format(node=each.node, state=each.state) for each in (found or own or states)[:20])
    if found:
        raise UserError(f"it holds {len(found)} states", remedy=f"name one: {choice}")
    near = None if node is None or own else did_you_mean(node, tuple({each.node for each in states}))
    asked = " of ".join(
        [*(f"state {text!r}" for text in [state] if text), *(f"node {text!r}" for text in [node] if text)]
    )
    raise UserError(f"there is no {asked}", remedy=near or f"it has: {choice}")


def _stored(manifest: Manifest, handles: list[StateHandle]) -> StoredState:
    first = handles[0]
    if first.kind == StateKind.BROADCAST:
        handles = handles[:1]  # every copy is the same
    files = {part.path: part.bytes for handle in handles for part in handle.files}
    return StoredState(
        node=first.node,
        state=first.state,
        kind=first.kind,
        keys=first.keys,
        rows=sum(handle.rows for handle in handles),
        bytes=sum(files.values()),
        columns={name: dtype for handle in handles for name, dtype in handle.columns.items()},
        handles=tuple(handles),
        max_parallelism=manifest.max_parallelism,
        origin=f"{manifest.kind} {manifest.epoch} of {manifest.pipeline}",
        is_pruned=manifest.kind == "checkpoint",
    )
