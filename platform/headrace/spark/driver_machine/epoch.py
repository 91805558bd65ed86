"""The computation of one epoch: its rows, the state it begins with, and where its states go. Shapes only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.checkpoint.manifest import Manifest, SplitDocument
from headrace.core.source_state import SourceState

Splits = Mapping[str, tuple[SplitDocument, ...]]
"""Source -> its splits, resolved."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The computation of one epoch.

    ranges      source -> splits to read, each up to its stop
    splits      source -> splits for the manifest, if they differ (no stop: the split goes on)
    before      located manifest that it begins with; sources: their states, if they differ from those of `before`
    states      URL of the folder for states; None: none are kept
    deltas      states go to the job's own folder, in units: unchanged units are neither read nor written
    hand_over   the end of the input closes no window; closed: sources that are at their end all the same
    last        all input has ended
    """

    number: int
    attempt: int
    ranges: Splits
    before: Manifest | None
    states: str | None
    hand_over: bool
    splits: Splits | None = None
    sources: Mapping[str, SourceState] | None = None
    closed: frozenset[str] = frozenset()
    deltas: bool = False
    last: bool = True


@dataclass(frozen=True, slots=True)
class Work:
    """The work that a look at the sources found.

    splits    the job's splits now, without a stop where they go on
    ranges    the same splits, each up to its current end
    sources   states of the sources, with the floors of idle partitions raised
    ended     sources that are at their end
    """

    splits: Splits
    ranges: Splits
    sources: Mapping[str, SourceState]
    ended: frozenset[str]

    @property
    def over(self) -> bool:
        """Whether every source is at its end."""
        return self.ended == frozenset(self.splits)


def standing(splits: Splits, states: Mapping[str, SourceState]) -> Splits:
    """Returns the splits with nothing to read: each ends at its state's position."""
    return {source: _standing(own, states.get(source)) for source, own in splits.items()}


def _standing(splits: tuple[SplitDocument, ...], state: SourceState | None) -> tuple[SplitDocument, ...]:
    positions = {(each.topic, each.partition): each.position for each in (() if state is None else state.splits)}
    return tuple(
        split.model_copy(update={"stop": positions.get((split.topic, split.partition), split.start)})
        for split in splits
    )
