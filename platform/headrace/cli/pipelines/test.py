"""`headrace test`: runs the `tests:` of a pipeline file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import File, Json, Set, plural, print_json
from headrace.cli.errors import FAILED, reporting_errors

if TYPE_CHECKING:
    from headrace.local.comparison.row_diff import RowDiff
    from headrace.local.engine.testcases import CaseResult

ROWS_SHOWN = 20


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
    mark = typer.style("passed", fg="green") if result.passed else typer.style("FAILED", fg="red")
    typer.echo(f"{mark}  {result.name}")
    if result.error is not None:
        typer.echo(f"  the job failed: {result.error}")
    for mismatch in result.mismatches:
        batches = "" if mismatch.batch_rows is None else f", in batches of {plural(mismatch.batch_rows, 'row')}"
        typer.echo(f"  {mismatch.output}{batches}:")
        _print_diff(mismatch.diff)


def _print_diff(diff: RowDiff) -> None:
    from headrace.local.comparison.row_text import row_text, value_text

    lines: list[tuple[str, str]] = []
    for pair in diff.changed:
        lines.append(("yellow", f"~ {row_text(pair.expected)}"))
        for column in pair.columns:
            expected, actual = value_text(pair.expected[column]), value_text(pair.actual[column])
            lines.append(("yellow", f"    {column}: expected {expected}, got {actual}"))
    lines += [("red", f"- {row_text(row)}  (missing)") for row in diff.missing]
    lines += [("green", f"+ {row_text(row)}  (unexpected)") for row in diff.unexpected]
    for color, line in lines[:ROWS_SHOWN]:
        typer.secho(f"    {line}", fg=color)
    if len(lines) > ROWS_SHOWN:
        typer.echo(f"    .. and {len(lines) - ROWS_SHOWN} more lines")


def _result_dict(result: CaseResult) -> dict[str, object]:
    from headrace.local.comparison.row_text import json_row

    return {
        "name": result.name,
        "passed": result.passed,
        "error": None if result.error is None else str(result.error),
        "outputs": [
            {
                "output": mismatch.output,
                "batch_rows": mismatch.batch_rows,
                "missing": [json_row(row) for row in mismatch.diff.missing],
                "unexpected": [json_row(row) for row in mismatch.diff.unexpected],
                "changed": [
                    {
                        "expected": json_row(pair.expected),
                        "actual": json_row(pair.actual),
                        "columns": list(pair.columns),
                    }
                    for pair in mismatch.diff.changed
                ],
            }
            for mismatch in result.mismatches
        ],
    }
