"""count."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.types import DataType, Primitive
from headrace.expr.aggregates.function import AggregateForm, AggregateFunction, Family, Nulls


def _whole(_name: str, _types: Sequence[DataType]) -> DataType:
    return Primitive.INT64


FAMILY = Family(
    functions=(AggregateFunction("count", _whole, nulls=Nulls.NEVER, counts_rows=True),),
    forms=(AggregateForm(("count(*)", "count(x)"), "`int64`, never NULL", {"count": ("count(x)", "3")}),),
)
