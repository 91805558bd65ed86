"""The current ends of the sources of a followed pipeline.

limits   the stops that the pipeline defines, resolved once for the job's life. A split without a stop never ends
ends     the current ends: the same sources with `stop: latest`, resolved again for every increment

A discovery is one request for the current ends. It returns, for each known or new split, the range up to its current
end, but never past its limit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.checkpoint.manifest import SplitDocument
from headrace.connect.restored import restored
from headrace.core.errors import ExternalError, UserError
from headrace.core.source_state import SourceState
from headrace.execution.connectors import JobConnectors
from headrace.execution.planning import plan_pipeline
from headrace.plan.contexts import source_context
from headrace.plan.physical import PhysicalPlan, SourceSpec

Splits = dict[str, tuple[SplitDocument, ...]]
"""Source -> its splits."""
SplitKey = tuple[str, str, int]
"""Source, topic, partition."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """The result of one request for the current ends.

    splits   the job's splits now, with their limits
    ranges   the same splits up to their current ends, to be read from the positions of their state
    """

    splits: Splits
    ranges: Splits

    def fresh(self, states: Mapping[str, SourceState]) -> frozenset[SplitKey]:
        """Returns the splits with rows to read from the positions in `states` on.

        Raises ExternalError if a log ends before the position up to which it was read: it has lost records. A driver
        that continued would wait until the log has other rows at that position, and skip all rows before it. A log may
        end before a split's start, though: the start may lie behind an open transaction, which readers cannot pass yet.
        """
        found: set[SplitKey] = set()
        for source, splits in self.ranges.items():
            for split, limit in zip(splits, self.splits[source], strict=True):
                position = _position(split, states.get(source))
                if split.stop is None:
                    continue
                if max(split.start, split.stop) < position and split.stop != limit.stop:
                    raise _fallen_back(source, split, position)
                if position < split.stop:
                    found.add((source, split.topic, split.partition))
        return frozenset(found)

    @property
    def ended(self) -> frozenset[str]:
        """Sources whose splits all end at their limit in these ranges: no rows follow."""
        return frozenset(
            source
            for source, splits in self.splits.items()
            if splits
            and all(
                split.stop is not None and now.stop is not None and now.stop >= split.stop
                for split, now in zip(splits, self.ranges[source], strict=True)
            )
        )


class FollowSources:
    """Requests the current ends of the sources of one job. Blocking; used by one thread."""

    def __init__(self, limits: Mapping[str, Any], ends: PhysicalPlan) -> None:
        """limits: the pipeline's file form with its own stops; ends: its plan with `stop: latest` for every source."""
        self._limits = limits
        self._ends = ends
        self._bounded = {spec.node for spec in _sources(plan_pipeline(limits)) if spec.config.bounded}

    def resolve(self, job: str, known: Splits, accepted: Collection[str] = ()) -> Splits:
        """Returns the splits that the job begins with, after a check of the sinks. known: those of the job's origin;
        accepted: its topics that may be other ones now. Raises UserError, ExternalError.
        """
        connectors = JobConnectors()
        try:
            found = connectors.open(plan_pipeline(self._limits), job, known=known, foreign=True, accepted=accepted)
        finally:
            connectors.close()
        return {source: each.splits for source, each in found.items()}

    def discover(self, known: Splits) -> Discovery:
        """Returns the splits and their current ends. Raises UserError if a source reports no current end, or does not
        have a known split any more."""
        found = {spec.node: self._now(spec, known.get(spec.node, ())) for spec in _sources(self._ends)}
        splits: Splits = {}
        ranges: Splits = {}
        for source, now in found.items():
            splits[source], ranges[source] = self._joined(source, known.get(source, ()), now)
        return Discovery(splits, ranges)

    def _now(self, spec: SourceSpec, known: Sequence[SplitDocument]) -> list[SplitDocument]:
        context = source_context(spec, self._ends.pipeline, self._ends.batch_rows_max)
        enumerator = spec.config.open_enumerator(context)
        try:
            if known:
                enumerator = restored(enumerator, spec.node, [each.split() for each in known], foreign=True)
            return [SplitDocument.of(split) for split in enumerator.discover()]
        finally:
            enumerator.close()

    def _joined(
        self, source: str, known: Sequence[SplitDocument], found: Sequence[SplitDocument]
    ) -> tuple[tuple[SplitDocument, ...], tuple[SplitDocument, ...]]:
        limits = {(split.topic, split.partition): split for split in known}
        pairs: list[tuple[SplitDocument, SplitDocument]] = []
        for now in sorted(found, key=lambda each: (each.topic, each.partition)):
            if now.stop is None:
                raise UserError(
                    f"source {source!r} does not report its current end, so it cannot be followed",
                    remedy="set its stop, or run the pipeline with `headrace run`",
                )
            limit = limits.get((now.topic, now.partition))
            if limit is None and source in self._bounded:
                continue  # the splits of a bounded source are fixed when the job begins
            if limit is None:
                limit = now.model_copy(update={"stop": None})
            elif source not in self._bounded:
                limit = limit.model_copy(update={"detail": now.detail})
            # state of an earlier version has no identity; a log with another one has been refused
            limit = limit.model_copy(update={"identity": now.identity or limit.identity})
            stop = now.stop if limit.stop is None else min(now.stop, limit.stop)
            pairs.append((limit, limit.model_copy(update={"stop": stop})))
        return tuple(limit for limit, _ in pairs), tuple(now for _, now in pairs)


def _sources(plan: PhysicalPlan) -> list[SourceSpec]:
    return [node for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]


def _fallen_back(source: str, split: SplitDocument, position: int) -> ExternalError:
    # retry: a broker that has just become leader may report an old end for a short time
    return ExternalError(
        f"source {source!r}: {split.topic}[{split.partition}] ends at {split.stop}, and was read up to {position}",
        remedy="its log was created again, or has lost records: start a new job, from positions that exist",
        retry=True,
    )


def _position(split: SplitDocument, state: SourceState | None) -> int:
    for each in () if state is None else state.splits:
        if (each.topic, each.partition) == (split.topic, split.partition):
            return each.position
    return split.start
