"""Prints the difference between rows, for the commands that compare rows."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import typer

from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.local.comparison.difference_report import DifferenceWords
    from headrace.local.comparison.row_diff import RowDiff
    from headrace.local.comparison.row_equality import RowsCompared

_COLORS = {"changed": "yellow", "missing": "red", "extra": "green"}


def print_comparison(
    title: str, rows: RowsCompared, *, missing: str, extra: str, key: tuple[str, ...] | None = None
) -> None:
    """Prints one line, and examples. missing, extra: labels of such rows: `only on spark`."""
    from headrace.local.comparison.difference_report import DifferenceWords, example_diff

    if rows.same:
        typer.echo(f"{typer.style('same', fg='green')}  {title}: {plural(rows.equal, 'row')}")
        return
    mark = typer.style("DIFFERENT", fg="red")
    typer.echo(
        f"{mark}  {title}: {plural(rows.equal, 'row')} equal, {rows.missing:,} {missing}, {rows.extra:,} {extra}"
    )
    for text in rows.types:
        typer.echo(f"    types differ: {text}")
    diff = example_diff(rows, key)
    if diff is not None:
        print_diff(diff, DifferenceWords(missing, extra, "{expected}, and {actual} there"))


def print_diff(diff: RowDiff, words: DifferenceWords, *, lines_max: int | None = None) -> None:
    """Prints the lines of a difference, at most `lines_max` of them, and the number of the others."""
    from headrace.local.comparison.difference_report import diff_lines

    lines = list(diff_lines(diff, words))
    for kind, line in islice(lines, lines_max):
        typer.secho(f"    {line}", fg=_COLORS[kind])
    if lines_max is not None and len(lines) > lines_max:
        typer.echo(f"    .. and {len(lines) - lines_max} more lines")
