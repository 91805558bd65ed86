"""From the acknowledgements of an epoch to its manifest. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.checkpoint.manifest import CommittableDocument, Manifest, OutputTotal, StateHandle
from headrace.coordinator.epochs import Pending
from headrace.coordinator.job import Job
from headrace.core.digest_text import add_digests, digest_text, digest_value
from headrace.core.source_state import SourceState, merged


def manifest_of(
    job: Job, pending: Pending, now_ms: int, committables: tuple[CommittableDocument, ...] = ()
) -> Manifest:
    """All that the epoch consists of, in an order that does not depend on who answered first.

    committables: those of the epoch, as their committers describe them
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


def with_output(
    before: Mapping[str, OutputTotal], committables: Iterable[CommittableDocument]
) -> dict[str, OutputTotal]:
    """Sink -> all that it has committed once these are, too. Sinks that hash no rows have no total."""
    total = dict(before)
    for item in committables:
        if item.digest:
            own = total.get(item.sink, OutputTotal())
            digest = add_digests(digest_value(own.digest), digest_value(item.digest))
            total[item.sink] = own.model_copy(update={"rows": own.rows + item.rows, "digest": digest_text(digest)})
    return total


def with_successors(
    before: Mapping[str, tuple[str, ...]], committables: Iterable[CommittableDocument]
) -> dict[str, tuple[str, ...]]:
    """Sink -> names that its writers may use once these are committed."""
    names = dict(before)
    for item in committables:
        if item.successor and item.successor not in names.get(item.sink, ()):
            names[item.sink] = (*names.get(item.sink, ()), item.successor)
    return names


def total_counters(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Node -> counter -> sum over the parts."""
    total: dict[str, dict[str, int]] = {}
    for part in parts:
        for node, own in part.items():
            sums = total.setdefault(node, {})
            for name, value in own.items():
                sums[name] = sums.get(name, 0) + value
    return total


def savepoint_states(pending: Pending) -> tuple[StateHandle, ...]:
    """The handles of the epoch's files in its savepoint folder."""
    documents = sorted(pending.documents, key=lambda document: (document.task, document.subtask))
    return tuple(handle for document in documents for handle in document.savepoint)


def savepoint_of(manifest: Manifest, states: tuple[StateHandle, ...]) -> Manifest:
    """The savepoint's own manifest: the same cut, with the files in its folder. It commits nothing when restored."""
    return manifest.model_copy(update={"kind": "savepoint", "states": states, "committables": ()})
