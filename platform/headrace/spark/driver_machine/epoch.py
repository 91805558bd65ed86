"""The computation of one epoch: the rows it reads, the state it begins with, and the folder of its states. Data
only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import Formats, Manifest, SplitDocument
from headrace.core.source_state import SourceState

Splits = Mapping[str, tuple[SplitDocument, ...]]
"""Source -> its splits, resolved."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The computation of one epoch.

    ranges      source -> splits to read, each up to its stop
    before      located manifest that the epoch begins with
    states      URL of the folder for states; None: states are not written
    hand_over   the end of the input closes no window
    splits      source -> splits for the manifest, if they differ from `ranges` (a split without a stop continues)
    sources     source -> its state, if it differs from that in `before`
    closed      with `hand_over`: sources that have ended nevertheless
    deltas      states are written to the job's folder, in units (`operators.aggregation.deltas`): units that do not
                change are neither read nor written
    last        all input has ended
    formats     what formats have prepared
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
    formats: Formats = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """The work that a discovery at the sources found.

    splits    the job's splits now; a split that continues has no stop
    ranges    the same splits, each up to its current end
    sources   states of the sources, with the floors of idle partitions raised
    ended     sources that have ended
    """

    splits: Splits
    ranges: Splits
    sources: Mapping[str, SourceState]
    ended: frozenset[str]

    @property
    def over(self) -> bool:
        """Whether every source has ended."""
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
