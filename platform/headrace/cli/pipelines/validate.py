"""`headrace validate`: checks a pipeline without running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from headrace.cli.arguments import File, Json, Set, print_json
from headrace.cli.errors import WRONG_USE, problem_dict, reporting_errors
from headrace.core.text.plural import plural


@reporting_errors()
def validate(
    file: File,
    set_: Set = None,
    no_env: Annotated[
        bool,
        typer.Option(
            "--no-env",
            help="For a stranger's file: read no environment variable. What has no default is not checked.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a pipeline: everything that is wrong, with file, line and column. Runs nothing."""
    if no_env:
        _validate_unreplaced(file, set_ or [], as_json=as_json)
        return
    from headrace.core.errors import InvalidPipelineError, Problem, UserError
    from headrace.local.engine.compile import compile_loaded
    from headrace.local.pipeline_file import load_file

    try:
        compiled = compile_loaded(load_file(file, set_ or []))
    except InvalidPipelineError as error:
        if not as_json:
            raise
        print_json({"valid": False, "problems": [problem_dict(problem) for problem in error.problems]})
        raise typer.Exit(WRONG_USE) from error
    except UserError as error:
        if not as_json:
            raise
        print_json({"valid": False, "problems": [problem_dict(Problem(error.message, (), None, error.remedy))]})
        raise typer.Exit(WRONG_USE) from error
    logical = compiled.logical
    warnings = [f"{node.name}: {reason}" for node in logical.nodes for reason in node.not_replayable]
    planned = {node.name for node in logical.nodes}
    unread = [name for name in (*compiled.pipeline.sources, *compiled.pipeline.steps) if name not in planned]
    warnings += [f"{name}: it reaches no sink, so it does not run" for name in unread]
    if as_json:
        document = {"valid": True, "pipeline": logical.pipeline, "replayable": logical.replayable}
        print_json({**document, "warnings": warnings})
        return
    kind = "replayable" if logical.replayable else "not replayable"
    typer.echo(f"{file}: valid, {plural(len(logical.nodes), 'node')}, {kind}")
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def _validate_unreplaced(file: str, set_: Sequence[str], *, as_json: bool) -> None:
    from headrace.core.errors import InvalidPipelineError
    from headrace.local.pipeline_file import unreplaced_problems

    problems, unchecked = unreplaced_problems(file, set_)
    if as_json:
        places = [{"file": place.file, "line": place.line, "column": place.column} for place in unchecked]
        shown = [problem_dict(problem) for problem in problems]
        print_json({"valid": not problems, "problems": shown, "unchecked": places})
        if problems:
            raise typer.Exit(WRONG_USE)
        return
    if problems:
        raise InvalidPipelineError(problems)
    typer.echo(f"{file}: no mistakes, {plural(len(unchecked), 'value')} not checked")
    for place in unchecked:
        typer.echo(f"not checked: {place}: it contains a variable without a default", err=True)
