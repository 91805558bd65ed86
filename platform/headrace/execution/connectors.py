"""A job's live connectors: the enumerators of its sources and the committers of its sinks.

The connector host and the local job hold one. Several threads call it: one for each source, one for the committers. It
knows neither the coordinator nor the transport of requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.checkpoint.manifest import CommittableDocument, SplitDocument
from headrace.connect.restored import restored
from headrace.connect.sink import (
    AuditedCommitter,
    Committable,
    Committer,
    OpenTransaction,
    OutputAudit,
    OutputSeen,
    SinkContext,
)
from headrace.connect.source import Enumerator, Split
from headrace.core.errors import ExternalError, InternalError, UserError
from headrace.execution.discovered import DiscoveredSource
from headrace.plan.contexts import sink_context, source_context
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec


class Refusals:
    """Collects the UserErrors of several sources and sinks, so that a user corrects all of them at once.

    Any other error is raised at once, because the next parts would only repeat it.
    """

    def __init__(self) -> None:
        self._errors: dict[str, UserError] = {}

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Keeps a UserError of the block. Equal errors (two nodes name one missing topic) are kept once."""
        try:
            yield
        except UserError as error:
            self._errors.setdefault(str(error), error)

    def raise_all(self) -> None:
        """Raises the collected error, or one UserError with all of them. Does nothing if there is none."""
        errors = list(self._errors.values())
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise UserError(f"{len(errors)} problems:\n" + "\n".join(str(error) for error in errors)) from errors[0]


@dataclass(slots=True)
class _Source:
    """An enumerator; its caller holds `lock`."""

    enumerator: Enumerator
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class _Before:
    """Splits resolved before, in the form that `JobConnectors.open` accepts."""

    splits: Mapping[str, Sequence[Split]]
    foreign: bool
    accepted: Collection[str]


class JobConnectors:
    """The enumerators and committers of one job. Opened once, or again with other splits."""

    def __init__(self) -> None:
        self._sources: dict[str, _Source] = {}
        self._committers: dict[str, Committer] = {}
        self._audits: dict[str, OutputAudit] = {}

    def open(
        self,
        plan: PhysicalPlan,
        job: str,
        *,
        known: Mapping[str, Sequence[SplitDocument]] | None = None,
        foreign: bool = False,
        sinks: bool = True,
        accepted: Collection[str] = (),
    ) -> dict[str, DiscoveredSource]:
        """Prepares the sinks, opens everything and returns what each source has.

        Parts that are already open are closed first. If a part fails to open, those before it are closed. The user
        errors of all parts are raised together; any other error is raised at once.

        known     source -> splits resolved before; foreign: by another job
        sinks     whether sinks are prepared and committers opened
        accepted  topics that may differ from those of `known`: they begin as new ones
        """
        self.close_all()
        try:
            refusals = Refusals()
            # sinks first: their missing topics are found before positions are resolved
            if sinks:
                self._open_sinks(plan, job, refusals)
            splits = {source: [each.split() for each in own] for source, own in (known or {}).items()}
            before = _Before(splits, foreign, accepted)
            found = {}
            for node in _nodes(plan):
                if isinstance(node, SourceSpec):
                    with refusals.collecting():
                        found[node.node] = self._open_source(plan, node, before)
            refusals.raise_all()
        except BaseException:
            self.close_all()
            raise
        return found

    def open_committers(self, plan: PhysicalPlan, job: str) -> None:
        """Opens only the committers, without any other external effect."""
        self.close_all()
        try:
            refusals = Refusals()
            self._open_sinks(plan, job, refusals, prepare=False)
            refusals.raise_all()
        except BaseException:
            self.close_all()
            raise

    def _open_sinks(self, plan: PhysicalPlan, job: str, refusals: Refusals, *, prepare: bool = True) -> None:
        for task in plan.tasks:
            for node in task.nodes:
                if isinstance(node, SinkSpec):
                    context = sink_context(node, job, parallelism=task.parallelism, terms=plan.checkpoint)
                    with refusals.collecting():
                        self._open_sink(node, context, prepare=prepare)

    def _open_sink(self, node: SinkSpec, context: SinkContext, *, prepare: bool) -> None:
        if prepare:
            node.config.prepare(context)
        committer = node.config.open_committer(context)
        if committer is not None:
            self._committers[node.node] = committer

    def _open_source(self, plan: PhysicalPlan, spec: SourceSpec, before: _Before) -> DiscoveredSource:
        enumerator = spec.config.open_enumerator(source_context(spec, plan.pipeline, plan.batch_rows_max))
        # before it can refuse: a refused one is closed, too
        self._sources[spec.node] = _Source(enumerator)
        if own := before.splits.get(spec.node):
            enumerator = restored(enumerator, spec.node, own, foreign=before.foreign, accepted=before.accepted)
            self._sources[spec.node] = _Source(enumerator)
        splits = _documents(enumerator.discover())
        interval_ms = enumerator.discovery_interval_ms
        return DiscoveredSource(
            splits=splits, interval_ms=interval_ms, final=interval_ms is None or spec.config.bounded
        )

    def discover(self, source: str) -> tuple[SplitDocument, ...]:
        """Returns all splits of a source, as known now."""
        held = self._sources.get(source)
        if held is None:
            raise InternalError(f"no source {source!r} is open")
        with held.lock:
            # it may have been closed while this thread waited for the lock
            if self._sources.get(source) is not held:
                raise InternalError(f"no source {source!r} is open any more")
            return _documents(held.enumerator.discover())

    def begins(self) -> dict[str, dict[str, Any]]:
        """Returns sink -> where output begins that is written from now on."""
        audited = {sink: each for sink, each in self._committers.items() if isinstance(each, AuditedCommitter)}
        return {sink: committer.begin() for sink, committer in audited.items()}

    def describe(self, committables: Sequence[CommittableDocument]) -> tuple[CommittableDocument, ...]:
        """Returns the committables with the details that their commit needs, sink by sink."""
        return self._each(committables, lambda committer, items: committer.describe(items))

    def commit(self, committables: Sequence[CommittableDocument]) -> tuple[CommittableDocument, ...]:
        """Commits output, sink by sink. Idempotent. Returns the lost committables."""
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
        """Ends open transactions under these names; skips sinks without a committer."""
        for sink, own in names.items():
            if sink in self._committers:
                self._committers[sink].fence(own)

    def sweep(self, attempt: int) -> tuple[str, ...]:
        """Ends open transactions that are not of this attempt. Returns their names."""
        return tuple(name for committer in self._committers.values() for name in committer.sweep(attempt))

    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        """Returns the open transactions of all sinks."""
        return tuple(there for committer in self._committers.values() for there in committer.open_transactions())

    def audit(self, sink: str, begin: Mapping[str, Any], timeout_ms: int) -> OutputSeen:
        """Reads more of a sink's output; the first call for a sink starts at `begin`. Raises UserError if its connector
        cannot."""
        audit = self._audits.get(sink)
        if audit is None:
            committer = self._committers.get(sink)
            if not isinstance(committer, AuditedCommitter):
                raise UserError(f"the output of sink {sink!r} cannot be read back: its connector does not")
            audit = self._audits[sink] = committer.audit(begin)
        return audit.read(timeout_ms)

    def close(self) -> None:
        """Closes all parts, then raises the first error. Idempotent."""
        if errors := self.close_all():
            raise errors[0]

    def close_all(self, patience_ms: int | None = None) -> list[Exception]:
        """Closes all parts and returns what went wrong. Idempotent.

        patience_ms   how long to wait for a `discover` in another thread; after that its enumerator stays open. None:
                      no limit
        """
        sources, self._sources = self._sources, {}
        committers, self._committers = self._committers, {}
        audits, self._audits = self._audits, {}
        errors: list[Exception] = []
        for audit in audits.values():
            _close(audit, errors)
        for name, source in sources.items():
            if source.lock.acquire(timeout=-1 if patience_ms is None else patience_ms / 1000):
                try:
                    _close(source.enumerator, errors)
                finally:
                    source.lock.release()
            else:
                errors.append(ExternalError(f"source {name} still looks for new splits: left behind"))
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
    except Exception as error:  # the other parts are closed, too
        errors.append(error)
