"""`case`, `if`, `coalesce`, `nullif`: branches that are not taken can neither fail a row nor change a type."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.core.errors import ExpressionError
from headrace.expr.terms.coercion import unify
from headrace.expr.terms.comparison import as_bool, compare
from headrace.expr.terms.term import NULL, Term, bound, combine, either, only_where


def case(branches: Sequence[tuple[Term, Term]], default: Term | None) -> Term:
    """The result of the first branch whose condition is true; else `default`; else NULL."""
    conditions = [as_bool(condition, "when") for condition, _ in branches]
    results, dtype = unify([*(result for _, result in branches), default or NULL], "case")
    value = results[-1].value
    for condition, result in zip(reversed(conditions), reversed(results[:-1]), strict=True):
        value = pl.when(condition.value).then(result.value).otherwise(value)
    return combine(
        [*conditions, *results],
        dtype,
        value,
        nullable=any(result.nullable for result in results),
        fails=_branch_failures(conditions, results),
        inherit_fails=False,
    )


def _branch_failures(conditions: Sequence[Term], results: Sequence[Term]) -> pl.Expr | None:
    """A condition's failure counts if no earlier condition was true, a result's failure if its branch is taken."""
    masks: list[pl.Expr | None] = []
    untaken: pl.Expr | None = None
    for condition, result in zip(conditions, results[:-1], strict=True):
        holds = condition.value.fill_null(value=False)
        reached = holds if untaken is None else untaken & holds
        masks.append(condition.fails if untaken is None else only_where(untaken, condition.fails))
        masks.append(only_where(reached, result.fails))
        untaken = ~holds if untaken is None else untaken & ~holds
    assert untaken is not None, "a case has a branch"
    masks.append(only_where(untaken, results[-1].fails))
    return either(*masks)


def simple_case(subject: Term, branches: Sequence[tuple[Term, Term]], default: Term | None) -> Term:
    """`case subject when value then result ..`."""
    compared = [(compare("=", subject, value), result) for value, result in branches]
    return case(compared, default)


def coalesce(terms: Sequence[Term]) -> Term:
    """The first value that is not NULL. Later arguments cannot fail a row in which an earlier one is not NULL."""
    typed, dtype = unify(terms, "coalesce")
    masks: list[pl.Expr | None] = []
    unanswered: pl.Expr | None = None
    for term in typed:
        masks.append(term.fails if unanswered is None else only_where(unanswered, term.fails))
        missing = term.value.is_null()
        unanswered = missing if unanswered is None else unanswered & missing
    return combine(
        typed,
        dtype,
        pl.coalesce([term.value for term in typed]),
        nullable=all(term.nullable for term in typed),
        fails=either(*masks),
        inherit_fails=False,
    )


def nullif(term: Term, other: Term) -> Term:
    """NULL if both are equal, else the first."""
    dtype = term.known_type()
    if other.type is None and other.interval is None:
        return term
    compare("=", term, other)

    def value(one: Term, two: Term) -> pl.Expr:
        return pl.when(~compare("=", one, two).value.fill_null(value=False)).then(one.value)

    return combine([term, other], dtype, bound([term, other], value, dtype), nullable=True)


def choose(terms: Sequence[Term]) -> Term:
    """`if(condition, then, else)`."""
    if len(terms) not in (2, 3):
        raise ExpressionError("if takes a condition, a value and, if wanted, a value for else")
    return case([(terms[0], terms[1])], terms[2] if len(terms) == 3 else None)
