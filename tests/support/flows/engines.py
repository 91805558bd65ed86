"""Both engines on a range of a pipeline, each from where the other has ended: a savepoint in, a savepoint out.

replayed   `headrace.spark` over an exchange: Spark's own, or LocalExchange
live       slots in this process over the real transport (`support.control.slots`), ended by a hand-over
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace import __version__
from headrace.checkpoint.manifest import Manifest, SplitDocument, StateHandle
from headrace.checkpoint.paths import savepoint_url
from headrace.checkpoint.savepoints.savepoint import find, write_savepoint
from headrace.checkpoint.unique_names import unique_part
from headrace.core.source_state import AppliedFloor, SourceState
from headrace.execution.connectors import JobConnectors
from headrace.execution.manifests import savepoint_of
from headrace.execution.origin import OriginWish
from headrace.execution.planning import JobPlans
from headrace.execution.split_assignment import assign_splits
from headrace.rpc.deployment import Deployment
from headrace.spark.driver.exchange import Exchange
from headrace.spark.launch.replay import Prepared, ReplayOptions
from headrace.spec.pipeline import Pipeline
from support.control.slots import Attempt, Snapshot, deployed
from support.flows.backends import Backend, kept_in
from support.flows.site import Flow, flows

NOT_REPLAYABLE = {
    "edges": "everywhere: partition: broadcast gives every subtask every row: the result depends on the parallelism",
}
"""Flows whose results do not depend on the log alone: node and reason. A test asserts that these are all."""


def replayable_flows() -> list[Flow]:
    """All others."""
    return [flow for flow in flows() if flow.name not in NOT_REPLAYABLE]


@dataclass(frozen=True)
class Stretch:
    """A range of a pipeline: its document stops where the range ends.

    begin    savepoint to start from
    closes   the end of the input closes every window; else the range ends with a savepoint
    backend  where slots keep their state
    groups   `max_parallelism`; None: the document's own
    """

    document: Mapping[str, Any]
    parallelism: int
    begin: str | None = None
    closes: bool = False
    floors: tuple[AppliedFloor, ...] = ()
    backend: Backend = "memory"
    groups: int | None = None

    def plans(self) -> JobPlans:
        """Of the pipeline."""
        groups = {} if self.groups is None else {"max_parallelism": self.groups}
        return JobPlans({**self.document, **groups})


def replayed(stretch: Stretch, exchange: Exchange, folder: Path) -> str | None:
    """The stretch by the Spark engine; the savepoint at its end. The job is one of its own."""
    options = ReplayOptions(
        savepoint=None if stretch.closes else str(folder / "savepoints"),
        origin=None if stretch.begin is None else OriginWish(stretch.begin, max_parallelism=stretch.groups),
        floors=stretch.floors,
        parallelism=stretch.parallelism,
        python_path=(str(folder),),
    )
    job = f"replay-{unique_part()}"
    prepared = Prepared(stretch.plans(), options, str(folder / "storage"), job)
    return prepared.replay(exchange, _quiet).run().savepoint


def _quiet(_: str) -> None:
    """Progress is nobody's here."""


def live(stretch: Stretch, folder: Path) -> str | None:
    """The stretch by the native runtime; the savepoint at its end."""
    plans = stretch.plans()
    pipeline = plans.model(stretch.parallelism)
    before = None if stretch.begin is None else find(stretch.begin).manifest
    job = f"live-{unique_part()}"
    storage = folder / "storage" / job
    storage.mkdir(parents=True)
    target = savepoint_url(str(folder / "savepoints"), job, 1, unique_part())

    def changed(deployment: Deployment) -> Deployment:
        return deployment.model_copy(update={"hand_over": not stretch.closes, "floors": stretch.floors})

    splits = _resolved(plans, stretch.parallelism, job, before)
    mode = pipeline.checkpoint.mode
    restored = _snapshot(before, splits, pipeline.max_parallelism)
    with (
        kept_in(stretch.backend, folder / "local"),
        deployed(Attempt(pipeline, storage, restored=restored, mode=mode, change=changed)) as attempt,
    ):
        attempt.wait_input_ended()
        taken = attempt.epoch(savepoint="" if stretch.closes else target)
        attempt.finish()
    if stretch.closes:
        return None
    taken = replace(taken, splits=splits, savepoint=tuple(_relative(handle, target) for handle in taken.savepoint))
    return write_savepoint(_manifest(plans, pipeline, stretch.parallelism, job, taken), target)


def _relative(handle: StateHandle, folder: str) -> StateHandle:
    parts = tuple(part.model_copy(update={"path": part.path.removeprefix(f"{folder}/")}) for part in handle.files)
    return handle.model_copy(update={"files": parts})


def _resolved(
    plans: JobPlans, parallelism: int, job: str, before: Manifest | None
) -> dict[str, tuple[SplitDocument, ...]]:
    """As the connector host does it for a job that goes on from another one's savepoint."""
    connectors = JobConnectors()
    known = {} if before is None else before.splits
    try:
        opened = connectors.open(plans.plan(parallelism), job, known=known, foreign=True)
        return {source: found.splits for source, found in opened.items()}
    finally:
        connectors.close()


def _snapshot(
    before: Manifest | None, splits: Mapping[str, tuple[SplitDocument, ...]], max_parallelism: int
) -> Snapshot:
    states = () if before is None else before.states
    sources = {} if before is None else before.sources
    return Snapshot(
        0 if before is None else before.epoch,
        states,
        (),
        {source: _going_on(own, sources.get(source, SourceState())) for source, own in splits.items()},
        dict(splits),
        max_parallelism if before is None else before.max_parallelism,
    )


def _going_on(splits: tuple[SplitDocument, ...], state: SourceState) -> SourceState:
    """What the coordinator tells slots: a split whose stop has moved on is not finished."""
    (assigned,) = assign_splits(splits, state, 1)
    return replace(state, splits=tuple(each.state for each in assigned if each.state is not None))


def _manifest(plans: JobPlans, pipeline: Pipeline, parallelism: int, job: str, taken: Snapshot) -> Manifest:
    facts = plans.facts(parallelism)
    manifest = Manifest(
        kind="checkpoint",
        job=job,
        pipeline=pipeline.name,
        epoch=taken.epoch,
        attempt=1,
        created_at_ms=0,
        version=__version__,
        plan_hash=facts.plan_hash,
        max_parallelism=facts.max_parallelism,
        parallelism=dict(facts.parallelism),
        nodes=dict(facts.nodes),
        states=taken.states,
        sources=taken.sources,
        splits=taken.splits,
        counters={},
        final=True,
    )
    return savepoint_of(manifest, taken.savepoint)
