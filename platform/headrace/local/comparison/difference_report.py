"""Formats a difference between rows as lines of text and as plain data for `--json`. Pure.

Commands choose the words and the colors. The choice, format and order of the rows are the same for all commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headrace.core.text.row_text import json_row, row_text, value_text
from headrace.local.comparison.row_diff import RowDiff, diff_rows
from headrace.local.comparison.row_equality import RowsCompared

LineKind = Literal["changed", "missing", "extra"]
"""The kind of row that a line shows."""


@dataclass(frozen=True, slots=True)
class DifferenceWords:
    """The words of a command.

    missing, extra   label of a missing or extra row: `only on spark`
    values           template for a changed column: `expected {expected}, got {actual}`
    """

    missing: str
    extra: str
    values: str


def diff_lines(diff: RowDiff, words: DifferenceWords) -> Iterator[tuple[LineKind, str]]:
    """Changed rows with their columns, then rows of one side only."""
    for pair in diff.changed:
        yield "changed", f"~ {row_text(pair.expected)}"
        for column in pair.columns:
            expected, actual = value_text(pair.expected[column]), value_text(pair.actual[column])
            yield "changed", f"    {column}: {words.values.format(expected=expected, actual=actual)}"
    for row in diff.missing:
        yield "missing", f"- {row_text(row)}  ({words.missing})"
    for row in diff.extra:
        yield "extra", f"+ {row_text(row)}  ({words.extra})"


def diff_json(diff: RowDiff) -> dict[str, list[dict[str, object]]]:
    """The same as plain data: `changed`, `missing`, `extra`."""
    return {
        "changed": [
            {"expected": json_row(pair.expected), "actual": json_row(pair.actual), "columns": list(pair.columns)}
            for pair in diff.changed
        ],
        "missing": [json_row(row) for row in diff.missing],
        "extra": [json_row(row) for row in diff.extra],
    }


def example_diff(rows: RowsCompared, key: tuple[str, ...] | None) -> RowDiff | None:
    """The difference of a comparison's examples, similar rows paired. None if types differ: no rows were compared."""
    return None if rows.types else diff_rows(rows.missing_examples, rows.extra_examples, key=key, exact=True)


def comparison_json(rows: RowsCompared, key: tuple[str, ...] | None = None) -> dict[str, object]:
    """A comparison as plain data."""
    diff = example_diff(rows, key)
    return {
        "same": rows.same,
        "equal": rows.equal,
        "missing": rows.missing,
        "extra": rows.extra,
        "types": list(rows.types),
        "examples": None if diff is None else diff_json(diff),
    }
