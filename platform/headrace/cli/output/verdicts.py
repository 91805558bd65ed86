"""The verdict per node on restoring: what a pipeline would make of a savepoint's state, told before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from headrace.checkpoint.savepoints.savepoint import Found
    from headrace.checkpoint.savepoints.verdict import NodeVerdict
    from headrace.local.engine.compile import Compiled


def tell_verdicts(
    compiled: Compiled, path: str, renames: Mapping[str, str], *, allow_dropped_state: bool
) -> tuple[NodeVerdict, ...]:
    """Prints them on stderr. Raises UserError where state would be lost against the user's will.

    Empty where the place cannot be read from here: then the coordinator judges alone.
    """
    from headrace.checkpoint.savepoints.savepoint import find
    from headrace.checkpoint.savepoints.verdict import judge
    from headrace.core.errors import ExternalError, UserError

    try:
        found = find(path)
    except (UserError, ExternalError) as error:
        typer.echo(f"{path} is judged by the coordinator: from here, {error.message}", err=True)
        return ()
    verdicts = judge(found.manifest, compiled.physical, renames)
    typer.echo(f"from {found.url}:", err=True)
    for line in verdict_lines(verdicts):
        typer.echo(f"  {line}", err=True)
    require_state_kept(found, verdicts, allow_dropped_state=allow_dropped_state)
    return verdicts


def verdict_lines(verdicts: Sequence[NodeVerdict]) -> list[str]:
    """A line for each node."""
    names = max((len(each.node) for each in verdicts), default=0)
    words = max((len(each.verdict) for each in verdicts), default=0)
    return [f"{each.node:<{names}}  {each.verdict:<{words}}  {each.text}" for each in verdicts]


def require_state_kept(found: Found, verdicts: Sequence[NodeVerdict], *, allow_dropped_state: bool) -> None:
    """Raises UserError where state would be lost: what cannot be used at all is refused in any case."""
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
