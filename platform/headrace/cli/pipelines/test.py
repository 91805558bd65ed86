"""`headrace test`: runs the `tests:` of a pipeline file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import File, Json, Set, print_json
from headrace.cli.errors import FAILED, reporting_errors
from headrace.cli.row_differences import print_diff
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.local.engine.testcases import CaseResult, Mismatch

LINES_MAX = 20
"""Of a mismatch, printed."""


@reporting_errors()
def test(file: File, set_: Set = None, as_json: Json = False) -> None:
    """Run the tests inside a pipeline file: rows in, rows out, with batches of any size. No broker is needed."""
    from headrace.core.errors import UserError
    from headrace.local.engine.testcases import prepare_cases, run_cases
    from headrace.local.pipeline_file import load_file

    loaded = load_file(file, set_ or [])
    if not loaded.pipeline.tests:
        remedy = "add `tests:` with a list of cases, each with name, inputs: {source: [rows]}, outputs: {sink: [rows]}"
        raise UserError(f"{file} has no tests", remedy=remedy)
    results = []
    for result in run_cases(loaded.pipeline, prepare_cases(loaded)):
        results.append(result)
        if not as_json:
            _print_result(result)
    failed = sum(not result.passed for result in results)
    if as_json:
        cases = [_result_dict(result) for result in results]
        print_json({"passed": len(results) - failed, "failed": failed, "cases": cases})
    else:
        typer.echo(f"{len(results) - failed} passed, {failed} failed")
    if failed:
        raise typer.Exit(FAILED)


def _print_result(result: CaseResult) -> None:
    from headrace.local.comparison.difference_report import DifferenceWords

    words = DifferenceWords("missing", "unexpected", "expected {expected}, got {actual}")
    mark = typer.style("passed", fg="green") if result.passed else typer.style("FAILED", fg="red")
    typer.echo(f"{mark}  {result.name}")
    if result.error is not None:
        typer.echo(f"  the job failed: {result.error}")
    for mismatch in result.mismatches:
        batches = "" if mismatch.batch_rows is None else f", in batches of {plural(mismatch.batch_rows, 'row')}"
        typer.echo(f"  {mismatch.output}{batches}:")
        print_diff(mismatch.diff, words, lines_max=LINES_MAX)


def _result_dict(result: CaseResult) -> dict[str, object]:
    return {
        "name": result.name,
        "passed": result.passed,
        "error": None if result.error is None else str(result.error),
        "outputs": [_mismatch_dict(mismatch) for mismatch in result.mismatches],
    }


def _mismatch_dict(mismatch: Mismatch) -> dict[str, object]:
    from headrace.local.comparison.difference_report import diff_json

    rows = diff_json(mismatch.diff)
    return {
        "output": mismatch.output,
        "batch_rows": mismatch.batch_rows,
        "missing": rows["missing"],
        "unexpected": rows["extra"],
        "changed": rows["changed"],
    }
