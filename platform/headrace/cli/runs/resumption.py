"""The state of an earlier run in `headrace run`: resumes it, with a verdict per node, or reports that it is left
behind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer

from headrace.cli.verdicts import require_state_kept, verdict_lines
from headrace.core.errors import HeadraceError, UserError
from headrace.local.runs.runs import RecordedRun, newest_checkpoint, recorded_run

if TYPE_CHECKING:
    from headrace.checkpoint.journal.records import CheckpointRecord
    from headrace.checkpoint.savepoints.verdict import NodeVerdict
    from headrace.core.settings import Home
    from headrace.execution.origin import Origin
    from headrace.local.engine.compile import Compiled


@dataclass(frozen=True, slots=True)
class Allowed:
    """The differences that a resuming pipeline may have."""

    renames: Mapping[str, str] = field(default_factory=dict)
    dropped_state: bool = False
    drained: bool = False
    lost_output: bool = False
    new_topics: tuple[str, ...] = ()
    max_parallelism: int | None = None

    @property
    def rehashes(self) -> bool:
        """Whether state may be hashed anew, for another number of key groups."""
        return self.max_parallelism is not None


@dataclass(frozen=True, slots=True)
class TakenUp:
    """The start of a run. job: the same job is resumed; origin: a new job starts from a checkpoint, adapted to it."""

    job: str | None = None
    origin: Origin | None = None


def take_up(home: Home, compiled: Compiled, file: str, allowed: Allowed) -> TakenUp:
    """Prints the run, its checkpoint and a verdict on each node to stderr, before anything starts.

    Raises UserError if there is no such run, if it was one of another file, or if state would be lost.
    """
    from headrace.checkpoint.savepoints.savepoint import checkpoint_url, find
    from headrace.checkpoint.savepoints.verdict import judge, loses_state

    pipeline = compiled.pipeline
    run = recorded_run(home, pipeline.name)
    _require_same_file(home, pipeline.name, run, file)
    newest = newest_checkpoint(run)
    if newest is None:
        typer.echo(f"resuming run {run.job}, which had no checkpoint yet", err=True)
        return TakenUp(job=run.job)
    url = checkpoint_url(run.storage, newest)
    found = find(url)
    verdicts = judge(found.manifest, compiled.physical, allowed.renames, rehashes=allowed.rehashes)
    _tell(f"resuming run {run.job} from {_named(newest)}:", verdicts)
    require_state_kept(found, verdicts, allow_dropped_state=allowed.dropped_state)
    same_groups = found.manifest.max_parallelism == compiled.physical.max_parallelism
    if same_groups and not allowed.renames and not loses_state(verdicts):
        return TakenUp(job=run.job)
    # this process holds the name's lock, so no other one runs it
    return TakenUp(origin=_origin(compiled, url, allowed, take_over=True))


def start_from(compiled: Compiled, path: str, allowed: Allowed) -> TakenUp:
    """Starts a new job from a savepoint or checkpoint; prints a verdict on each node to stderr first.

    Raises UserError if there is none, or if state would be lost.
    """
    from headrace.checkpoint.savepoints.savepoint import find
    from headrace.checkpoint.savepoints.verdict import judge

    found = find(path)
    verdicts = judge(found.manifest, compiled.physical, allowed.renames, rehashes=allowed.rehashes)
    _tell(f"from {found.url}:", verdicts)
    return TakenUp(origin=_origin(compiled, path, allowed, take_over=False))


def _origin(compiled: Compiled, path: str, allowed: Allowed, *, take_over: bool) -> Origin:
    from headrace.execution.origin import OriginWish, find_origin
    from headrace.execution.planning import JobPlans

    wish = OriginWish(
        path,
        allowed.renames,
        allowed.dropped_state,
        allowed.drained,
        take_over,
        allow_lost_output=allowed.lost_output,
        accepted_topics=allowed.new_topics,
        max_parallelism=allowed.max_parallelism,
    )
    plans = JobPlans(compiled.pipeline.to_dict())
    return find_origin(wish, plans, compiled.pipeline.parallelism, time.time_ns() // 1_000_000)


def _tell(title: str, verdicts: Sequence[NodeVerdict]) -> None:
    for line in (title, *(f"  {line}" for line in verdict_lines(verdicts))):
        typer.echo(line, err=True)


def tell_left_behind(home: Home, name: str, file: str) -> None:
    """Reports that a new run leaves the state of an earlier one behind, and how to resume that."""
    try:
        run = recorded_run(home, name)
        newest = newest_checkpoint(run)
    except HeadraceError:
        return  # there is none, or it is unreadable: a new run loses nothing
    if newest is not None:
        typer.echo(
            f"an earlier run of {name} has kept its state, {_named(newest)}; this run starts anew\n"
            f"  to go on from there instead: headrace run {file} --from-savepoint {run.storage}",
            err=True,
        )


def _require_same_file(home: Home, name: str, run: RecordedRun, file: str) -> None:
    if run.file and run.file != file:
        raise UserError(
            f"the last run of {name} in {home.root} was one of {run.file}",
            remedy=f"resume that file; or give this pipeline another name (--name) or another HEADRACE_HOME; if it is "
            f"the same pipeline in another place: --from-savepoint {run.storage}",
        )


def _named(newest: CheckpointRecord) -> str:
    return f"checkpoint {checkpoint_text(newest)}"


def checkpoint_text(newest: CheckpointRecord) -> str:
    """A checkpoint with its age: `12, 3 h old`."""
    return f"{newest.manifest.epoch}, {age_text(time.time_ns() // 1_000_000 - newest.at_ms)} old"


def age_text(age_ms: int) -> str:
    """Returns an age in its largest unit of which there are at least two: `90 s`, `3 h`."""
    seconds = max(0, age_ms // 1_000)
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
