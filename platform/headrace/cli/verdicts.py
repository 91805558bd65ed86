"""Prints the verdict on each node before a restore: the effect of the pipeline on a savepoint's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from headrace.checkpoint.savepoints.savepoint import Found
    from headrace.checkpoint.savepoints.verdict import NodeVerdict
    from headrace.local.engine.compile import Compiled


def tell_verdicts(
    compiled: Compiled, path: str, renames: Mapping[str, str], *, allow_dropped_state: bool, rehashes: bool
) -> tuple[NodeVerdict, ...]:
    """Prints the verdicts to stderr. Raises UserError if state would be lost against the user's will.

    Returns none if the savepoint cannot be read from here: then only the coordinator judges.
    """
    from headrace.checkpoint.savepoints.savepoint import find
    from headrace.checkpoint.savepoints.verdict import judge
    from headrace.core.errors import ExternalError, UserError

    try:
        savepoint = find(path)
    except (UserError, ExternalError) as error:
        typer.echo(f"{path}: this host cannot read it ({error.message}); the coordinator judges it", err=True)
        return ()
    verdicts = judge(savepoint.manifest, compiled.physical, renames, rehashes=rehashes)
    typer.echo(f"from {savepoint.url}:", err=True)
    for line in verdict_lines(verdicts):
        typer.echo(f"  {line}", err=True)
    require_state_kept(savepoint, verdicts, allow_dropped_state=allow_dropped_state)
    return verdicts


def verdict_lines(verdicts: Sequence[NodeVerdict]) -> list[str]:
    """Returns a line for each node."""
    names = max((len(each.node) for each in verdicts), default=0)
    words = max((len(each.verdict) for each in verdicts), default=0)
    return [f"{each.node:<{names}}  {each.verdict:<{words}}  {each.text}" for each in verdicts]


def require_state_kept(found: Found, verdicts: Sequence[NodeVerdict], *, allow_dropped_state: bool) -> None:
    """Raises UserError if state would be lost. State that cannot be used at all is refused in any case."""
    from headrace.checkpoint.savepoints.verdict import Verdict, loses_state
    from headrace.core.errors import UserError

    unusable = [each.node for each in verdicts if each.verdict is Verdict.INCOMPATIBLE]
    if unusable:
        raise UserError(
            f"state of {', '.join(unusable)} in {found.url} cannot be used by this pipeline",
            remedy="give the node another name to begin anew, and --allow-dropped-state",
        )
    if loses_state(verdicts) and not allow_dropped_state:
        lost = [each.node for each in verdicts if each.verdict in {Verdict.DROPPED, Verdict.PARTLY}]
        raise UserError(
            f"state of {', '.join(lost)} in {found.url} would be lost",
            remedy="name what was renamed with --rename OLD=NEW, or give --allow-dropped-state",
        )
