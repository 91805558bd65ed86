"""Signatures and descriptions of the aggregate functions, for the reference."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AggregateForm:
    """Names of one aggregate, its signatures, and what it returns."""

    names: tuple[str, ...]
    signatures: tuple[str, ...]
    describes: str


AGGREGATE_FORMS: tuple[AggregateForm, ...] = (
    AggregateForm(("count",), ("count(*)", "count(x)"), "`int64`, never NULL"),
    AggregateForm(
        ("sum",),
        ("sum(x)",),
        "`int64` of integers, `decimal(38,s)` of decimals, `float64` of floats; NULL of none; a sum that does not fit "
        "fails",
    ),
    AggregateForm(("avg", "mean"), ("avg(x)", "mean(x)"), "`float64`"),
    AggregateForm(("min", "max"), ("min(x)", "max(x)"), "the type of x; not for lists and structs"),
    AggregateForm(
        ("var", "variance", "var_samp", "var_pop"),
        ("var(x)", "variance(x)", "var_samp(x)", "var_pop(x)"),
        "`float64`; the sample form of one value is NULL",
    ),
    AggregateForm(
        ("stddev", "stddev_samp", "stddev_pop"),
        ("stddev(x)", "stddev_samp(x)", "stddev_pop(x)"),
        "`float64`; the sample form of one value is NULL",
    ),
    AggregateForm(
        ("first", "last"), ("first(x)", "last(x)"), "the type of x; by the total order of rows, not by arrival"
    ),
)
