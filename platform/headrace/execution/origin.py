"""A job's origin: finds, judges, adapts and claims the savepoint or checkpoint that the user names."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import JournalReplaced
from headrace.checkpoint.journal.records import AttemptRecord, FinishedRecord
from headrace.checkpoint.journal.resolve import require_claimable
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.savepoints.savepoint import Found, find
from headrace.checkpoint.savepoints.verdict import NodeVerdict, Verdict, is_hashed, judge, loses_state
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import UserError

if TYPE_CHECKING:
    from headrace.execution.planning import JobPlans
    from headrace.plan.physical import PhysicalPlan
    from headrace.spec.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class OriginWish:
    """The user's choice of an origin: a path or URL, and the differences that are allowed.

    accepted_topics   topics that may be other ones than it has positions in: they begin as new ones
    max_parallelism   the number of key groups, even if the state was written with another one; None: that one
    """

    path: str
    renames: Mapping[str, str] = field(default_factory=dict)
    allow_dropped_state: bool = False
    allow_drained: bool = False
    take_over: bool = False
    allow_lost_output: bool = False
    accepted_topics: tuple[str, ...] = ()
    max_parallelism: int | None = None

    @property
    def key(self) -> str:
        """A text that identifies the same wish again: the path, the new names of nodes, and topics that begin anew."""
        renames = (f"{old}={new}" for old, new in sorted(self.renames.items()))
        return " ".join([self.path, *renames, *(f"new {topic}" for topic in self.accepted_topics)])


@dataclass(frozen=True, slots=True)
class Origin:
    """A job's origin. manifest: located, with the nodes' new names.

    open_names   sink, by its new name -> transaction names that the origin's job may have left open
    """

    url: str
    manifest: Manifest
    open_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def find_origin(wish: OriginWish, plans: JobPlans, parallelism: int, now_ms: int) -> Origin:
    """Returns the origin that a user names. Blocking.

    Raises UserError if it cannot be restored: not found, drained, of a job that may still run, or state would be
    dropped.
    """
    found = find(wish.path)
    _require_startable(wish, found, plans.model(parallelism), now_ms)
    plan = plans.plan(parallelism)
    rehashes = wish.max_parallelism == plan.max_parallelism
    verdicts = judge(found.manifest, plan, wish.renames, rehashes=rehashes)
    if not rehashes:
        _require_key_groups(found, plan, wish.renames)
    _require_kept(wish, found, verdicts)
    if found.journal is not None:
        claim(found, secrets.token_hex(8), now_ms)
    return _origin(found, wish.renames, verdicts, plan.max_parallelism)


def origin_again(url: str, renames: Mapping[str, str], plans: JobPlans, parallelism: int) -> Origin:
    """Returns the origin of an accepted job again, with the same state dropped. Blocking.

    Raises UserError if it no longer exists, ExternalError.
    """
    found = find(url)
    plan = plans.plan(parallelism)
    # another max_parallelism was allowed when the job was accepted: without that it was refused
    verdicts = judge(found.manifest, plan, renames, rehashes=True)
    return _origin(found, renames, verdicts, plan.max_parallelism)


def _origin(found: Found, renames: Mapping[str, str], verdicts: Sequence[NodeVerdict], max_parallelism: int) -> Origin:
    left = {} if found.journal is None else found.journal.transactions
    names = {renames.get(sink, sink): own for sink, own in left.items()}
    manifest = rehashed(_fitted(renamed(found.manifest, renames), verdicts), max_parallelism)
    return Origin(found.url, manifest, names)


def _require_startable(wish: OriginWish, found: Found, model: Pipeline, now_ms: int) -> None:
    if found.manifest.drained and not wish.allow_drained:
        raise UserError(
            f"{found.url} was drained: time went to its end, and every window has closed",
            remedy="start from an earlier one; or --allow-drained, if only what comes later matters",
        )
    if found.journal is not None and not wish.take_over:
        interval_ms = model.checkpoint.interval_ms or 0
        require_claimable(found.journal, found.manifest.job, now_ms, interval_ms, model.checkpoint.timeout_ms)
    if not wish.allow_lost_output:
        _require_visible(found)


def _require_visible(found: Found) -> None:
    """Refuses a checkpoint whose decided output may be invisible: no other job commits it, so starting after it would
    lose rows.
    """
    waiting = None if found.journal is None else found.journal.uncommitted
    if waiting is None or waiting.manifest.epoch != found.manifest.epoch or not waiting.manifest.committables:
        return
    items = waiting.manifest.committables
    sinks = ", ".join(sorted({item.sink for item in items}))
    raise UserError(
        f"the output of {sinks} in checkpoint {found.manifest.epoch} ({sum(item.rows for item in items)} rows) was "
        "decided, but may not be visible",
        remedy=f"commit it first (`headrace transactions commit {found.manifest.job}`, or let its own job "
        "go on); start from an earlier checkpoint, and rows that are visible come again; or --allow-lost-output",
    )


def _require_key_groups(found: Found, plan: PhysicalPlan, renames: Mapping[str, str]) -> None:
    before, now = found.manifest.max_parallelism, plan.max_parallelism
    kept = {node.node for task in plan.tasks for node in task.nodes}
    if before == now or not any(
        is_hashed(handle) and renames.get(handle.node, handle.node) in kept for handle in found.manifest.states
    ):
        return
    raise UserError(
        f"{found.url} was written with max_parallelism {before}, and the pipeline has {now}",
        remedy=f"set max_parallelism: {before}; or give --max-parallelism {now}: all state is read and hashed anew",
    )


def _require_kept(wish: OriginWish, found: Found, verdicts: Sequence[NodeVerdict]) -> None:
    if not loses_state(verdicts) or wish.allow_dropped_state:
        return
    lost = "\n".join(f"  {each.node}: {each.text}" for each in verdicts if loses_state([each]))
    raise UserError(
        f"state in {found.url} would be lost:\n{lost}",
        remedy="name what was renamed with --rename old=new, or give --allow-dropped-state",
    )


def _fitted(manifest: Manifest, verdicts: Sequence[NodeVerdict]) -> Manifest:
    """Returns the manifest without unusable state: its nodes start empty, as the user allowed."""
    unusable = {each.node for each in verdicts if each.verdict in (Verdict.INCOMPATIBLE, Verdict.DROPPED)}
    if not unusable:
        return manifest
    return manifest.model_copy(
        update={
            "states": tuple(each for each in manifest.states if each.node not in unusable),
            "sources": {name: state for name, state in manifest.sources.items() if name not in unusable},
            "splits": {name: splits for name, splits in manifest.splits.items() if name not in unusable},
            "formats": {name: each for name, each in manifest.formats.items() if name not in unusable},
        }
    )


def rehashed(manifest: Manifest, max_parallelism: int) -> Manifest:
    """Returns the manifest for that number of key groups: rows of any of them can be in every handle of a keyed state
    that was written with another one."""
    if manifest.max_parallelism == max_parallelism:
        return manifest
    spans = {"first_group": 0, "last_group": max_parallelism - 1}
    states = tuple(each.model_copy(update=spans) if is_hashed(each) else each for each in manifest.states)
    return manifest.model_copy(update={"states": states, "max_parallelism": max_parallelism})


def renamed(manifest: Manifest, renames: Mapping[str, str]) -> Manifest:
    """Returns the manifest with the nodes' new names."""
    if not renames:
        return manifest

    def new(name: str) -> str:
        return renames.get(name, name)

    return manifest.model_copy(
        update={
            "states": tuple(each.model_copy(update={"node": new(each.node)}) for each in manifest.states),
            "sources": {new(name): state for name, state in manifest.sources.items()},
            "splits": {new(name): splits for name, splits in manifest.splits.items()},
            "formats": {new(name): each for name, each in manifest.formats.items()},
            "nodes": {new(name): kind for name, kind in manifest.nodes.items()},
            "parallelism": {new(name): count for name, count in manifest.parallelism.items()},
        }
    )


def claim(found: Found, writer: str, at_ms: int) -> None:
    """Appends an `attempt` record to the journal of the checkpoint's job, then `finished`.

    A coordinator that still runs that job is superseded and stops. `journal.resolve.require_claimable` decides whether
    a checkpoint may be claimed.

    Does nothing for a savepoint, which belongs to no job, nor for a job whose journal ends in `finished`.

    An `attempt` record invalidates every checkpoint after its `restored_epoch` (`Journal.checkpoints`). This one names
    the newest checkpoint, so all checkpoints of the other job stay valid. The `finished` record is for a coordinator of
    that job that starts again later: it reads that the job has ended, and does not continue from the same checkpoint as
    the new job. Output that was decided but not committed is aborted with the job's other open output, unless `headrace
    transactions commit` runs first; the user has accepted that by claiming.

    Raises UserError if another writer has continued the job meanwhile.
    """
    if found.journal is None or found.journal.finished is not None:
        return
    journal_store = JournalStore(open_store(found.folder), "", writer)
    journal = journal_store.load()
    if journal.head == found.journal.head:
        newest = journal.checkpoints[-1].manifest
        attempt = journal.newest_attempt
        result = journal_store.append(
            AttemptRecord(
                at_ms=at_ms,
                attempt=journal.attempt + 1,
                restored_epoch=newest.epoch,
                parallelism=1 if attempt is None else attempt.parallelism,
                plan_hash=newest.plan_hash,
                splits=dict(journal.splits),
                formats=journal.formats,
            )
        )
        if not isinstance(result, JournalReplaced):
            result = journal_store.append(FinishedRecord(at_ms=at_ms, state="CANCELED"))
        if not isinstance(result, JournalReplaced):
            return
    raise UserError(
        f"job {found.manifest.job} is running: its journal grew while its checkpoint was looked at",
        remedy="stop it with a savepoint, and start from that",
    )
