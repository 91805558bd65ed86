"""Assigns splits to subtasks, and decides from which position each is read: that of the checkpoint, else where its
enumerator has it start. Pure: splits and a checkpoint's source state in, one tuple per subtask out.

A split's subtask depends only on its topic, its partition and the parallelism, never on the order of discovery.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.checkpoint.manifest import Manifest, SplitDocument
from headrace.core.errors import InternalError
from headrace.core.source_state import SourceState, SplitState
from headrace.rpc.deployment import AssignedSplitDocument


def subtask_of(topic: str, partition: int, parallelism: int) -> int:
    """Returns the subtask that reads a partition."""
    return (zlib.crc32(topic.encode()) + partition) % parallelism


def assign_splits(
    splits: Iterable[SplitDocument], state: SourceState | None, parallelism: int
) -> tuple[tuple[AssignedSplitDocument, ...], ...]:
    """Returns subtask -> its splits in order. A split that `state` contains starts at its position there.

    Raises InternalError if `state` contains a split that is not among `splits`: its rows would be lost silently.
    """
    states = {(known.topic, known.partition): known for known in ([] if state is None else state.splits)}
    mine: list[list[AssignedSplitDocument]] = [[] for _ in range(parallelism)]
    for split in sorted(splits, key=lambda each: (each.topic, each.partition)):
        known = states.pop((split.topic, split.partition), None)
        mine[subtask_of(split.topic, split.partition, parallelism)].append(_assigned(split, known))
    if states:
        listed = ", ".join(f"{topic}[{partition}]" for topic, partition in sorted(states))
        raise InternalError(f"a checkpoint holds positions of {listed}, which the source does not name any more")
    return tuple(tuple(own) for own in mine)


def without_replaced(manifest: Manifest, splits: Mapping[str, Iterable[SplitDocument]]) -> Manifest:
    """Returns a checkpoint without the positions of splits whose log is another one in `splits`.

    They differ only where the user has accepted the new log. The first checkpoint after that has its positions, and
    until then every restore comes by here.
    """
    sources = dict(manifest.sources)
    for source, state in manifest.sources.items():
        now = {(split.topic, split.partition): split.identity for split in splits.get(source, ())}
        other = {
            (split.topic, split.partition)
            for split in manifest.splits.get(source, ())
            if split.identity and now.get((split.topic, split.partition), "") not in ("", split.identity)
        }
        if other:
            sources[source] = replace(
                state,
                splits=tuple(each for each in state.splits if (each.topic, each.partition) not in other),
                applied=tuple(each for each in state.applied if (each.topic, each.partition) not in other),
            )
    return manifest.model_copy(update={"sources": sources})


def _assigned(split: SplitDocument, state: SplitState | None) -> AssignedSplitDocument:
    if state is None:
        return AssignedSplitDocument(split=split)
    # the split's stop position may be later now than when the state was written, or absent: an unbounded job continues
    # the savepoint of a bounded run; then the split is not finished
    finished = state.finished and split.stop is not None and state.position >= split.stop
    return AssignedSplitDocument(
        split=split.model_copy(update={"start": state.position}), state=replace(state, finished=finished)
    )
