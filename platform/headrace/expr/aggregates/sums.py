"""sum and avg."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.types import FLOAT_TYPES, INT_TYPES, DataType, Decimal, Primitive
from headrace.expr.aggregates.function import (
    AggregateForm,
    AggregateFunction,
    Family,
    float_of_number,
    require_number,
)


def _sum(name: str, types: Sequence[DataType]) -> DataType:
    (dtype,) = types
    require_number(name, dtype)
    if dtype in FLOAT_TYPES:
        return Primitive.FLOAT64
    if dtype in INT_TYPES:
        return Primitive.INT64
    assert isinstance(dtype, Decimal), "the numbers are integers, floats and decimals"
    return Decimal(38, dtype.scale)


FAMILY = Family(
    functions=(AggregateFunction("sum", _sum), AggregateFunction("avg", float_of_number, ("mean",))),
    forms=(
        AggregateForm(
            ("sum(x)",),
            "`int64` of integers, `decimal(38,s)` of decimals, `float64` of floats; NULL of none; a sum that does not "
            "fit fails",
            {"sum": ("sum(x)", "7")},
        ),
        AggregateForm(
            ("avg(x)", "mean(x)"),
            "`float64`",
            {"avg": ("avg(x)", "2.3333333333333335"), "mean": ("mean(distinct x)", "2.0")},
        ),
    ),
)
