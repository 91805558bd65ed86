"""SQL text to sqlglot's tree: one expression in the duckdb dialect, with positions for error messages.

Function calls stay calls by name (sqlglot's rewriting into its own node classes is off), so that only the function
table gives a name its meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser

from headrace.core.errors import ExpressionError

_KEPT_PARSERS = ("CAST", "TRY_CAST", "EXTRACT")
_MISWRITTEN = {"=>": ">=", "=<": "<=", "&": "and", "===": "="}
LENGTH_MAX = 20_000
DEPTH_MAX = 200


class ExpressionDialect(DuckDB):
    """The duckdb dialect without its function rewrites and without its shift of list indexes."""

    INDEX_OFFSET = 0

    class Parser(DuckDBParser):
        """Keeps `f(x)` as written."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr | None]]] = {
            name: parser for name, parser in DuckDBParser.FUNCTION_PARSERS.items() if name in _KEPT_PARSERS
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[object, type[exp.Expr]]] = {}


def parse(text: str) -> exp.Expr:
    """The tree of one expression. Raises ExpressionError with the offset of the token at which parsing stopped."""
    if len(text) > LENGTH_MAX:
        raise ExpressionError(f"the expression is longer than {LENGTH_MAX} characters")
    try:
        statements = sqlglot.parse(text, read=ExpressionDialect)
    except ParseError as error:
        raise _readable(text, error) from error
    except SqlglotError as error:
        message = str(error).splitlines()[0]
        raise ExpressionError(f"this does not parse: {message}", remedy="is a quote or bracket left open?") from error
    except RecursionError as error:
        raise ExpressionError("the expression is nested too deeply") from error
    found = [statement for statement in statements if statement is not None]
    if not found:
        raise ExpressionError("the expression is empty", offset=0)
    if len(statements) > 1:
        raise ExpressionError("there is more than one statement", offset=text.find(";"), remedy="remove the `;`")
    _check_depth(found[0])
    return found[0]


def tree_of(source: str | exp.Expr) -> exp.Expr:
    """The tree of an expression: of its text, or as it is. A tree comes from `ExpressionDialect`, so that function
    calls are still calls by name."""
    if isinstance(source, str):
        return parse(source)
    _check_depth(source)
    return source


def text_of(source: str | exp.Expr) -> str:
    """The text of an expression, for messages and documents."""
    return source if isinstance(source, str) else source_text(source)


def offset_of(node: exp.Expr) -> int | None:
    """0-based offset in the text of the leftmost token of `node` with a known position."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=None)


def source_text(node: exp.Expr) -> str:
    """`node` as SQL, in the same form for equal trees."""
    return node.sql(dialect=ExpressionDialect, normalize_functions="lower", comments=False)


def _check_depth(tree: exp.Expr) -> None:
    """Raises ExpressionError for a tree whose translation could exceed the interpreter's stack."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for parent in level for child in parent.iter_expressions()]
    if depth > DEPTH_MAX:
        raise ExpressionError(f"the expression is nested deeper than {DEPTH_MAX} levels")


def _readable(text: str, error: ParseError) -> ExpressionError:
    facts = error.errors[0] if error.errors else {}
    highlight = facts.get("highlight") or ""
    offset = None
    if facts.get("line") and facts.get("col"):
        lines = text.splitlines(keepends=True)
        before = sum(len(line) for line in lines[: facts["line"] - 1])
        offset = max(0, min(before + facts["col"] - len(highlight), len(text)))
    description = str(facts.get("description") or str(error).splitlines()[0])
    if description.startswith("Required keyword"):
        return ExpressionError(f"something is missing after {highlight!r}", offset=offset)
    if description == "Invalid expression / Unexpected token":
        meant = _MISWRITTEN.get(highlight)
        remedy = None if meant is None else f"did you mean {meant!r}?"
        return ExpressionError(f"{highlight!r} is not expected here", offset=offset, remedy=remedy)
    return ExpressionError(f"this does not parse near {highlight!r}: {description.lower()}", offset=offset)
