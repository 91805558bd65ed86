"""Variances and standard deviations, of samples and of populations."""

from __future__ import annotations

from headrace.expr.aggregates.function import AggregateForm, AggregateFunction, Family, Nulls, float_of_number

_RESULT = "`float64`; the sample form of one value is NULL"
FAMILY = Family(
    functions=(
        AggregateFunction("var", float_of_number, ("variance", "var_samp"), Nulls.FEW_VALUES),
        AggregateFunction("var_pop", float_of_number),
        AggregateFunction("stddev", float_of_number, ("stddev_samp",), Nulls.FEW_VALUES),
        AggregateFunction("stddev_pop", float_of_number),
    ),
    forms=(
        AggregateForm(
            ("var(x)", "variance(x)", "var_samp(x)", "var_pop(x)"),
            _RESULT,
            {
                "var": ("var(x)", "1.3333333333333333"),
                "variance": ("variance(x)", "1.3333333333333333"),
                "var_samp": ("var_samp(x)", "1.3333333333333333"),
                "var_pop": ("var_pop(x)", "0.8888888888888888"),
            },
        ),
        AggregateForm(
            ("stddev(x)", "stddev_samp(x)", "stddev_pop(x)"),
            _RESULT,
            {
                "stddev": ("stddev(x)", "1.1547005383792515"),
                "stddev_samp": ("stddev_samp(x)", "1.1547005383792515"),
                "stddev_pop": ("stddev_pop(x)", "0.9428090415820634"),
            },
        ),
    ),
)
