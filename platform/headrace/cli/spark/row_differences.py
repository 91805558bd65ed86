"""How commands that compare rows show what differs: for people, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import plural

if TYPE_CHECKING:
    from headrace.core.row_equality import RowsCompared
    from headrace.local.comparison.row_diff import RowDiff


def print_differences(
    title: str, rows: RowsCompared, *, missing: str, extra: str, key: tuple[str, ...] | None = None
) -> None:
    """One line, and examples. missing, extra: what is wrong with such rows: `only on spark`."""
    if rows.same:
        typer.echo(f"{typer.style('same', fg='green')}  {title}: {plural(rows.equal, 'row')}")
        return
    mark = typer.style("DIFFERENT", fg="red")
    typer.echo(
        f"{mark}  {title}: {plural(rows.equal, 'row')} equal, {rows.missing:,} {missing}, {rows.extra:,} {extra}"
    )
    for text in rows.types:
        typer.echo(f"    types differ: {text}")
    if not rows.types:
        _print_examples(_diff(rows, key), missing, extra)


def differences_dict(rows: RowsCompared, key: tuple[str, ...] | None = None) -> dict[str, object]:
    """The same as plain data."""
    from headrace.local.comparison.row_text import json_row

    diff = None if rows.types else _diff(rows, key)
    return {
        "same": rows.same,
        "equal": rows.equal,
        "missing": rows.missing,
        "extra": rows.extra,
        "types": list(rows.types),
        "examples": None
        if diff is None
        else {
            "changed": [
                {"expected": json_row(pair.expected), "actual": json_row(pair.actual), "columns": list(pair.columns)}
                for pair in diff.changed
            ],
            "missing": [json_row(row) for row in diff.missing],
            "extra": [json_row(row) for row in diff.unexpected],
        },
    }


def _diff(rows: RowsCompared, key: tuple[str, ...] | None) -> RowDiff:
    from headrace.local.comparison.row_diff import diff_rows

    return diff_rows(rows.missing_examples, rows.extra_examples, key=key, exact=True)


def _print_examples(diff: RowDiff, missing: str, extra: str) -> None:
    from headrace.local.comparison.row_text import row_text, value_text

    for pair in diff.changed:
        typer.secho(f"    ~ {row_text(pair.expected)}", fg="yellow")
        for column in pair.columns:
            expected, actual = value_text(pair.expected[column]), value_text(pair.actual[column])
            typer.secho(f"        {column}: {expected}, and {actual} there", fg="yellow")
    for row in diff.missing:
        typer.secho(f"    - {row_text(row)}  ({missing})", fg="red")
    for row in diff.unexpected:
        typer.secho(f"    + {row_text(row)}  ({extra})", fg="green")
