"""The functions of the language as entries with a signature, a description and an example, from the function table.

`headrace functions` and docs/expressions.md show them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace.core.errors import ExpressionError
from headrace.expr.aggregates.table import AGGREGATE_FORMS
from headrace.expr.functions.examples import EXAMPLES
from headrace.expr.functions.numeric import NUMERIC
from headrace.expr.functions.overload import Function, Overload
from headrace.expr.functions.table import FORMS
from headrace.expr.functions.temporal import TEMPORAL
from headrace.expr.functions.text import TEXT
from headrace.expr.sql.other_dialects import FOREIGN_NAMES

NEAREST_MAX = 5
"""Most names that the error about an unknown function proposes."""


class Group(StrEnum):
    """A section of the reference."""

    NUMBERS = "numbers"
    TEXT = "strings and lists"
    TIMES = "times"
    OTHERS = "conditions and others"
    AGGREGATES = "aggregates"


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """One function.

    signatures   forms with their result type: `round(float, n) -> float64`
    example      an expression; of an aggregate, over the rows of `functions.examples.AGGREGATE_ROWS`
    result       the example's result as an expression would write it, None if it depends on the row or on chance
    """

    name: str
    group: Group
    signatures: tuple[str, ...]
    describes: str
    example: str
    result: str | None

    @property
    def example_text(self) -> str:
        """`upper('jfk')` is `'JFK'`, in one line."""
        return self.example if self.result is None else f"{self.example} = {self.result}"


def entries() -> tuple[FunctionEntry, ...]:
    """Returns all functions, section by section."""
    return tuple(_entries())


def named(name: str) -> tuple[FunctionEntry, ...]:
    """Returns the function of that name, else those whose names begin with it, in any case.

    Raises ExpressionError, which proposes the nearest names, if there is none.
    """
    wanted = name.casefold()
    listed = entries()
    exact = tuple(entry for entry in listed if entry.name == wanted)
    chosen = exact or tuple(entry for entry in listed if wanted and entry.name.startswith(wanted))
    if not chosen:
        raise ExpressionError(f"there is no function {name!r}", remedy=_remedy(wanted, [each.name for each in listed]))
    return chosen


def _remedy(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=NEAREST_MAX, cutoff=0.6)
    near += [each for each in names if len(name) > 2 and name in each and each not in near][: NEAREST_MAX - len(near)]
    if name in FOREIGN_NAMES:
        return FOREIGN_NAMES[name]
    return f"nearest: {', '.join(near)}" if near else "`headrace functions` lists all functions"


def _entries() -> Iterator[FunctionEntry]:
    for group, functions in ((Group.NUMBERS, NUMERIC), (Group.TEXT, TEXT), (Group.TIMES, TEMPORAL)):
        for function in functions:
            signatures = tuple(_signature(function, overload) for overload in function.overloads)
            yield FunctionEntry(function.name, group, signatures, function.describes, *EXAMPLES[function.name])
    for form in FORMS.values():
        yield FunctionEntry(form.name, Group.OTHERS, (form.signature,), form.describes, *EXAMPLES[form.name])
    for aggregate in AGGREGATE_FORMS:
        for name, example in aggregate.examples.items():
            signatures = tuple(each for each in aggregate.signatures if each.startswith(f"{name}("))
            result = aggregate.describes.replace("`", "")
            yield FunctionEntry(name, Group.AGGREGATES, signatures, result, *example)


def _signature(function: Function, overload: Overload) -> str:
    return f"{function.name}({', '.join(overload.parameters)}) -> {result_text(overload)}"


def result_text(overload: Overload) -> str:
    """Returns the result type of a form; `decimal` if its digits depend on the arguments."""
    return "decimal" if callable(overload.result) else str(overload.result)
