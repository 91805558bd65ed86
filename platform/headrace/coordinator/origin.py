"""What a job is to start from: a savepoint or checkpoint that the user names, found, judged and fitted to the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.resolve import require_claimable
from headrace.checkpoint.savepoint import Found, find
from headrace.coordinator.planning import JobPlans
from headrace.core.errors import UserError


@dataclass(frozen=True, slots=True)
class OriginWish:
    """What a user says about where to start: a path or URL, and what is allowed to be different."""

    path: str
    renames: Mapping[str, str] = field(default_factory=dict)
    allow_dropped_state: bool = False
    allow_drained: bool = False
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a job starts. manifest: located, with the nodes' new names."""

    url: str
    manifest: Manifest


def find_origin(wish: OriginWish, plans: JobPlans, parallelism: int, now_ms: int) -> Origin:
    """The origin that a user names. Blocking.

    Raises UserError where it cannot be restored: not there, drained, of a job that may still run, or state would be
    dropped.
    """
    found = find(wish.path)
    _require_allowed(wish, found, plans, parallelism, now_ms)
    return Origin(found.url, renamed(found.manifest, wish.renames))


def _require_allowed(wish: OriginWish, found: Found, plans: JobPlans, parallelism: int, now_ms: int) -> None:
    from headrace.checkpoint.verdict import judge, loses_state

    manifest = found.manifest
    if manifest.drained and not wish.allow_drained:
        raise UserError(
            f"{found.url} was drained: time went to its end, and every window has closed",
            remedy="start from an earlier one; or --allow-drained, if only what comes later matters",
        )
    model = plans.model(parallelism)
    if found.journal is not None and not wish.take_over:
        interval_ms = model.checkpoint.interval_ms or 0
        require_claimable(found.journal, manifest.job, now_ms, interval_ms, model.checkpoint.timeout_ms)
    verdicts = judge(manifest, plans.plan(parallelism), wish.renames)
    wrong = [each for each in verdicts if each.verdict == "incompatible"]
    if wrong:
        raise UserError(
            "\n".join(f"{each.node}: {each.text}" for each in wrong), remedy="see `headrace explain --against`"
        )
    if loses_state(verdicts) and not wish.allow_dropped_state:
        lost = "\n".join(f"  {each.node}: {each.text}" for each in verdicts if each.verdict in ("dropped", "partly"))
        raise UserError(
            f"state in {found.url} would be lost:\n{lost}",
            remedy="name what was renamed with --rename old=new, or give --allow-dropped-state",
        )


def renamed(manifest: Manifest, renames: Mapping[str, str]) -> Manifest:
    """The manifest as if its nodes had had their new names from the start."""
    if not renames:
        return manifest

    def new(name: str) -> str:
        return renames.get(name, name)

    return manifest.model_copy(
        update={
            "states": tuple(each.model_copy(update={"node": new(each.node)}) for each in manifest.states),
            "sources": {new(name): state for name, state in manifest.sources.items()},
            "splits": {new(name): splits for name, splits in manifest.splits.items()},
            "nodes": {new(name): kind for name, kind in manifest.nodes.items()},
            "parallelism": {new(name): count for name, count in manifest.parallelism.items()},
        }
    )
