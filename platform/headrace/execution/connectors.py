"""A job's third parts, live: the enumerators of its sources and the committers of its sinks.

Lives in the connector host process and is called by several threads there, one for each source and one for the rest.
Knows neither the coordinator nor how requests come.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.checkpoint.manifest import CommittableDocument, SplitDocument
from headrace.connect.restored import restored
from headrace.connect.sink import AuditedCommitter, Committable, Committer, OutputAudit
from headrace.connect.source import Enumerator, Split
from headrace.core.errors import InternalError, UserError
from headrace.execution.connector_messages import (
    AuditRequest,
    DiscoveredSource,
    OpenCommittersRequest,
    OpenRequest,
    SeenDocument,
    TransactionDocument,
)
from headrace.plan.chaining import plan_physical
from headrace.plan.contexts import sink_context, source_context
from headrace.plan.logical import plan_logical
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec
from headrace.spec.reading.read import pipeline_from_dict


@dataclass(slots=True)
class _Source:
    """An enumerator; `lock` is held by whoever calls it."""

    enumerator: Enumerator
    lock: threading.Lock = field(default_factory=threading.Lock)


class HostedJob:
    """Opened once, or again with other splits; asked by source; closed."""

    def __init__(self) -> None:
        self._sources: dict[str, _Source] = {}
        self._committers: dict[str, Committer] = {}
        self._audits: dict[str, OutputAudit] = {}

    def open(self, request: OpenRequest) -> dict[str, DiscoveredSource]:
        """Source -> what it has. What is open already is closed first; what failed to open leaves nothing behind."""
        self._close_all()
        pipeline = pipeline_from_dict(request.pipeline)
        plan = plan_physical(plan_logical(pipeline), pipeline)
        try:
            # sinks first: a missing topic is said before positions are resolved
            if request.sinks:
                self._open_sinks(plan, request.job)
            known = {source: [each.split() for each in splits] for source, splits in request.known.items()}
            return {
                node.node: self._open_source(plan, node, known, foreign=request.foreign)
                for node in _nodes(plan)
                if isinstance(node, SourceSpec)
            }
        except BaseException:
            self._close_all()
            raise

    def open_committers(self, request: OpenCommittersRequest) -> None:
        """Opens the committers alone, and touches nothing else outside."""
        self._close_all()
        pipeline = pipeline_from_dict(request.pipeline)
        try:
            self._open_sinks(plan_physical(plan_logical(pipeline), pipeline), request.job, prepare=False)
        except BaseException:
            self._close_all()
            raise

    def _open_sinks(self, plan: PhysicalPlan, job: str, *, prepare: bool = True) -> None:
        for task in plan.tasks:
            for node in task.nodes:
                if isinstance(node, SinkSpec):
                    context = sink_context(node, job, parallelism=task.parallelism, terms=plan.checkpoint)
                    if prepare:
                        node.config.prepare(context)
                    committer = node.config.open_committer(context)
                    if committer is not None:
                        self._committers[node.node] = committer

    def _open_source(
        self, plan: PhysicalPlan, spec: SourceSpec, known: Mapping[str, Sequence[Split]], *, foreign: bool
    ) -> DiscoveredSource:
        enumerator = spec.config.open_enumerator(source_context(spec, plan.pipeline, plan.batch_rows_max))
        if own := known.get(spec.node):
            enumerator = restored(enumerator, spec.node, own, foreign=foreign)
        self._sources[spec.node] = _Source(enumerator)
        splits = _documents(enumerator.discover())
        interval_ms = enumerator.discovery_interval_ms
        return DiscoveredSource(
            splits=splits, interval_ms=interval_ms, final=interval_ms is None or spec.config.bounded
        )

    def discover(self, source: str) -> tuple[SplitDocument, ...]:
        """All splits of a source as they are known now."""
        held = self._sources.get(source)
        if held is None:
            raise InternalError(f"the connector host has no source {source!r} open")
        with held.lock:
            return _documents(held.enumerator.discover())

    def begins(self) -> dict[str, dict[str, Any]]:
        """Sink -> where its output begins that is written from now on."""
        audited = {sink: each for sink, each in self._committers.items() if isinstance(each, AuditedCommitter)}
        return {sink: committer.begin() for sink, committer in audited.items()}

    def describe(self, committables: Sequence[CommittableDocument]) -> tuple[CommittableDocument, ...]:
        """The same, with what it takes to commit them, sink by sink."""
        return self._each(committables, lambda committer, items: committer.describe(items))

    def commit(self, committables: Sequence[CommittableDocument]) -> tuple[CommittableDocument, ...]:
        """Makes output visible, sink by sink; a second call changes nothing. Gives what is lost."""
        return self._each(committables, lambda committer, items: committer.commit(items))

    def _each(
        self,
        committables: Sequence[CommittableDocument],
        do: Callable[[Committer, Sequence[Committable]], Sequence[Committable]],
    ) -> tuple[CommittableDocument, ...]:
        by_sink: dict[str, list[Committable]] = {}
        for item in committables:
            by_sink.setdefault(item.sink, []).append(item.committable())
        answers: list[CommittableDocument] = []
        for sink, items in by_sink.items():
            committer = self._committers.get(sink)
            if committer is None:
                raise InternalError(f"sink {sink!r} has something to commit, but no committer")
            answers += [CommittableDocument.of(item) for item in do(committer, items)]
        return tuple(answers)

    def fence(self, names: Mapping[str, Sequence[str]]) -> None:
        """Ends what is open under these names; those of sinks without a committer are passed over."""
        for sink, own in names.items():
            if sink in self._committers:
                self._committers[sink].fence(own)

    def sweep(self, attempt: int) -> tuple[str, ...]:
        """Ends what is open and not of this attempt. Gives the names."""
        return tuple(name for committer in self._committers.values() for name in committer.sweep(attempt))

    def open_transactions(self) -> tuple[TransactionDocument, ...]:
        """What is open of all sinks."""
        return tuple(
            TransactionDocument.of(there)
            for committer in self._committers.values()
            for there in committer.open_transactions()
        )

    def audit(self, request: AuditRequest) -> SeenDocument:
        """Reads a sink's output on. Raises UserError where its connector cannot."""
        audit = self._audits.get(request.sink)
        if audit is None:
            committer = self._committers.get(request.sink)
            if not isinstance(committer, AuditedCommitter):
                raise UserError(f"the output of sink {request.sink!r} cannot be read back: its connector does not")
            audit = self._audits[request.sink] = committer.audit(request.begin)
        return SeenDocument.of(audit.read(request.timeout_ms))

    def close(self) -> None:
        """Closes all parts; raises the first error after that. Idempotent."""
        if errors := self._close_all():
            raise errors[0]

    def _close_all(self) -> list[Exception]:
        sources, self._sources = self._sources, {}
        committers, self._committers = self._committers, {}
        audits, self._audits = self._audits, {}
        errors: list[Exception] = []
        for audit in audits.values():
            _close(audit, errors)
        for source in sources.values():
            with source.lock:
                _close(source.enumerator, errors)
        for committer in committers.values():
            _close(committer, errors)
        return errors


def _nodes(plan: PhysicalPlan) -> Iterable[object]:
    return (node for task in plan.tasks for node in task.nodes)


def _documents(splits: Sequence[Split]) -> tuple[SplitDocument, ...]:
    return tuple(SplitDocument.of(split) for split in sorted(splits, key=lambda split: split.id))


def _close(part: Enumerator | Committer | OutputAudit, errors: list[Exception]) -> None:
    try:
        part.close()
    except Exception as error:  # the others are closed all the same
        errors.append(error)
