"""Merges the reports of an epoch's tasks into its manifest. Pure.

Spark may run a task twice, and then the task may send two reports. Both are complete; the first one in byte order is
used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import CommittableDocument, Formats, Manifest, SplitDocument, StateHandle
from headrace.core.errors import InternalError
from headrace.core.signals import TIME_MIN
from headrace.core.source_state import SourceState, merged
from headrace.execution.manifests import total_counters
from headrace.execution.plan_facts import PlanFacts
from headrace.plan.physical import PhysicalPlan, SourceSpec
from headrace.spark.levels.envelope import Envelope
from headrace.spark.levels.levels import Levels
from headrace.spark.task.order import StagedShare, TaskReport

STAGED_FILES = "staged"
"""Key of a committable's payload with the files of its share."""


@dataclass(frozen=True, slots=True)
class CutFacts:
    """Facts of a manifest that are not in the tasks' reports.

    before    source -> its state before this epoch
    counted   node -> counters in the manifest before this epoch
    closed    time advanced to its end: every window has fired
    last      all input had ended
    formats   what formats have prepared
    """

    job: str
    pipeline: str
    version: str
    epoch: int
    attempt: int
    created_at_ms: int
    facts: PlanFacts
    splits: Mapping[str, tuple[SplitDocument, ...]]
    before: Mapping[str, SourceState] = field(default_factory=dict)
    counted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    closed: bool = False
    last: bool = True
    formats: Formats = field(default_factory=dict)


def one_of_each(reports: Iterable[bytes], levels: Levels) -> list[TaskReport]:
    """Returns one decoded report of each task, in order. Raises InternalError if one is missing."""
    found: dict[tuple[int, int], tuple[bytes, TaskReport]] = {}
    for packed in reports:
        data = Envelope.unpack(packed).payload
        report = TaskReport.model_validate_json(data)
        place = (report.level, report.partition)
        # the choice must not depend on which report arrives first, so that the manifest is always the same
        if place not in found or data < found[place][0]:
            found[place] = (data, report)
    wanted = [(level, partition) for level, width in enumerate(levels.widths) for partition in range(width)]
    if missing := [place for place in wanted if place not in found]:
        raise InternalError(f"task {missing[0][1]} of level {missing[0][0]} has not reported")
    return [found[place][1] for place in wanted]


def manifest_of(cut: CutFacts, plan: PhysicalPlan, reports: Sequence[TaskReport], folder: str | None) -> Manifest:
    """Returns the checkpoint. folder: URL that the paths of state files are relative to."""
    facts = cut.facts
    parts: dict[str, list[SourceState]] = {source: [] for source in facts.sources}
    for report in reports:
        for source, state in report.document.sources.items():
            parts[source].append(state)
    return Manifest(
        kind="checkpoint",
        job=cut.job,
        pipeline=cut.pipeline,
        epoch=cut.epoch,
        attempt=cut.attempt,
        created_at_ms=cut.created_at_ms,
        version=cut.version,
        plan_hash=facts.plan_hash,
        max_parallelism=facts.max_parallelism,
        parallelism=dict(facts.parallelism),
        nodes=dict(facts.nodes),
        states=tuple(_located(handle, folder) for handle in states_of(reports)),
        sources={
            source: _as_one(plan, source, merged(states), cut.before.get(source)) for source, states in parts.items()
        },
        splits=dict(cut.splits),
        counters=total_counters([cut.counted, *(report.document.counters for report in reports)]),
        committables=committables_of(reports, cut.epoch),
        definitions=dict(facts.definitions),
        drained=cut.closed and bool(facts.timed),
        final=cut.last,
        formats=cut.formats,
    )


def states_of(reports: Sequence[TaskReport]) -> tuple[StateHandle, ...]:
    """Returns all state handles, with paths relative to the tasks' output folder."""
    return tuple(handle for report in reports for handle in report.document.states)


def committables_of(reports: Sequence[TaskReport], epoch: int) -> tuple[CommittableDocument, ...]:
    """Returns the staged shares as committables, for the journal's decision."""
    return tuple(
        CommittableDocument(
            sink=share.sink,
            subtask=share.subtask,
            epoch=epoch,
            payload={STAGED_FILES: [part.model_dump() for part in share.files]},
            rows=share.rows,
        )
        for report in reports
        for share in report.staged
    )


def share_of(item: CommittableDocument) -> StagedShare:
    """Returns the staged share in a committable."""
    return StagedShare.model_validate(
        {"sink": item.sink, "subtask": item.subtask, "rows": item.rows, "files": item.payload[STAGED_FILES]}
    )


def _located(handle: StateHandle, folder: str | None) -> StateHandle:
    if folder is None:
        return handle
    files = tuple(part.model_copy(update={"path": f"{folder}/{part.path}"}) for part in handle.files)
    return handle.model_copy(update={"files": files})


def _as_one(plan: PhysicalPlan, source: str, state: SourceState, before: SourceState | None) -> SourceState:
    """The state of the whole source. A task reads one split, so what tasks emitted is replaced: the source has emitted
    the least height of its splits, or the watermark that it had emitted before, if that is greater."""
    specs = (node for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec))
    lag_ms = next(spec for spec in specs if spec.node == source).out_of_orderness_ms + 1
    height = min((split.height(lag_ms) for split in state.splits), default=TIME_MIN)
    earlier = TIME_MIN if before is None or before.emitted is None else before.emitted
    emitted = max(height, earlier)
    return dataclasses.replace(state, emitted=None if emitted == TIME_MIN else emitted)
