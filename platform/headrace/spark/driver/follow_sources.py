"""How far the sources of a followed pipeline can be read now, look by look.

    limits   as the pipeline says: resolved once for the job's life. A split without a stop goes on for ever
    ends     the same sources with `stop: latest`, asked anew for every increment: what is there now

A look gives, for each split that is known or new, the range up to its end of now, but never past its limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.checkpoint.manifest import SplitDocument
from headrace.connect.restored import restored
from headrace.core.errors import ExternalError, UserError
from headrace.core.source_state import SourceState
from headrace.execution.connector_messages import OpenRequest
from headrace.execution.connectors import HostedJob
from headrace.plan.chaining import plan_physical
from headrace.plan.contexts import source_context
from headrace.plan.logical import plan_logical
from headrace.plan.physical import PhysicalPlan, SourceSpec
from headrace.spec.reading.read import pipeline_from_dict

Splits = dict[str, tuple[SplitDocument, ...]]
"""Source -> its splits."""
Place = tuple[str, str, int]
"""Source, topic, partition."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a look found.

    splits   the job's splits now, with their limits
    ranges   the same up to where each ends now, to be read from where its state stands
    """

    splits: Splits
    ranges: Splits

    def fresh(self, states: Mapping[str, SourceState]) -> frozenset[Place]:
        """Splits that have something to read, given how far they were read.

        Raises ExternalError where a log ends before that: going on would wait until other rows stand at those
        positions, and leave out all before them. (A start may lie behind an open transaction, past what can be read.)
        """
        found: set[Place] = set()
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
        """Sources all of whose splits end at their limit in these ranges: nothing comes behind them."""
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
    """Looks at the sources of one job. Blocking; used by one thread."""

    def __init__(self, limits: Mapping[str, Any], ends: PhysicalPlan) -> None:
        """limits: the pipeline's file form as it is meant; ends: its plan with every source up to now."""
        self._limits = limits
        self._ends = ends
        pipeline = pipeline_from_dict(dict(limits))
        self._bounded = {
            spec.node for spec in _sources(plan_physical(plan_logical(pipeline), pipeline)) if spec.config.bounded
        }

    def resolve(self, job: str, known: Splits) -> Splits:
        """The splits that the job begins with; sinks are looked at first. known: those of what it starts from. Raises
        UserError, ExternalError."""
        hosted = HostedJob()
        try:
            found = hosted.open(OpenRequest(job=job, pipeline=dict(self._limits), known=known, foreign=True))
        finally:
            hosted.close()
        return {source: each.splits for source, each in found.items()}

    def look(self, known: Splits) -> Look:
        """What there is now. Raises UserError where a source does not say, or lacks a split that is known."""
        found = {spec.node: self._now(spec, known.get(spec.node, ())) for spec in _sources(self._ends)}
        splits: Splits = {}
        ranges: Splits = {}
        for source, now in found.items():
            splits[source], ranges[source] = self._joined(source, known.get(source, ()), now)
        return Look(splits, ranges)

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
                    f"source {source!r} does not say how far its rows go now, so it cannot be followed",
                    remedy="give it an end, or run the pipeline with `headrace run`",
                )
            limit = limits.get((now.topic, now.partition))
            if limit is None and source in self._bounded:
                continue  # what a bounded source has is settled when it begins
            if limit is None:
                limit = now.model_copy(update={"stop": None})
            elif source not in self._bounded:
                limit = limit.model_copy(update={"detail": now.detail})
            stop = now.stop if limit.stop is None else min(now.stop, limit.stop)
            pairs.append((limit, limit.model_copy(update={"stop": stop})))
        return tuple(limit for limit, _ in pairs), tuple(now for _, now in pairs)


def _sources(plan: PhysicalPlan) -> list[SourceSpec]:
    return [node for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]


def _fallen_back(source: str, split: SplitDocument, position: int) -> ExternalError:
    # a broker that has just become the leader may say so for a moment
    return ExternalError(
        f"source {source!r}: {split.topic}[{split.partition}] ends at {split.stop}, and was read up to {position}",
        remedy="its log was made anew, or has lost records: start a new job, from positions that it has",
        retry=True,
    )


def _position(split: SplitDocument, state: SourceState | None) -> int:
    for each in () if state is None else state.splits:
        if (each.topic, each.partition) == (split.topic, split.partition):
            return each.position
    return split.start
