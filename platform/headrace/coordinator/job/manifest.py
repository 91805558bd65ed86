"""Merges the acknowledgements of an epoch into its manifest. Pure."""

from __future__ import annotations

from headrace.checkpoint.manifest import CommittableDocument, Manifest, StateHandle
from headrace.coordinator.job.job import Job
from headrace.core.source_state import SourceState, merged
from headrace.execution.epochs import Pending
from headrace.execution.manifests import total_counters, with_output, with_successors


def manifest_of(
    job: Job, pending: Pending, now_ms: int, committables: tuple[CommittableDocument, ...] = ()
) -> Manifest:
    """Returns the epoch's manifest. Its order does not depend on the order of the acknowledgements.

    committables: those of the epoch, as their committers described them
    """
    documents = sorted(pending.documents, key=lambda document: (document.task, document.subtask))
    facts = job.facts
    parts: dict[str, list[SourceState]] = {source: [] for source in facts.sources}
    for document in documents:
        for source, state in document.sources.items():
            parts[source].append(state)
    return Manifest(
        kind="checkpoint",
        job=job.config.job,
        pipeline=job.config.name,
        epoch=pending.epoch,
        attempt=job.attempt,
        created_at_ms=now_ms + job.config.wall_offset_ms,
        version=job.config.version,
        plan_hash=facts.plan_hash,
        max_parallelism=facts.max_parallelism,
        parallelism=dict(facts.parallelism),
        nodes=dict(facts.nodes),
        states=tuple(handle for document in documents for handle in document.states),
        sources={source: merged(states) for source, states in parts.items()},
        splits=dict(job.splits),
        counters=total_counters([job.counted, *(document.counters for document in documents)]),
        committables=committables,
        transactions=with_successors(job.names, committables),
        output=with_output(job.output, committables),
        drained=pending.drain or (pending.final and bool(facts.timed) and not job.config.keeps_time_open),
        final=pending.final,
    )


def vanished_splits(job: Job, manifest: Manifest) -> list[str]:
    """Returns the job's splits whose positions the checkpoint before this one has, and this one lacks.

    There are none, unless a slot acknowledged without its splits: it did not receive them. Their rows would be read
    again after a restore, from the beginning.
    """
    if job.restored is None:
        return []
    vanished = []
    for source, state in manifest.sources.items():
        before = job.restored.sources.get(source, SourceState())
        read = {(split.topic, split.partition) for split in before.splits}
        assigned = {(split.topic, split.partition) for split in job.splits.get(source, ())}
        kept = {(split.topic, split.partition) for split in state.splits}
        vanished += [f"{source}: {topic}/{partition}" for topic, partition in sorted((read & assigned) - kept)]
    return vanished


def savepoint_states(pending: Pending) -> tuple[StateHandle, ...]:
    """Returns the handles of the epoch's files in its savepoint folder."""
    documents = sorted(pending.documents, key=lambda document: (document.task, document.subtask))
    return tuple(handle for document in documents for handle in document.savepoint)
