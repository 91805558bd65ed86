"""Converts rows written by users (test cases, calls from Python) to frames of a schema. Few rows, so one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from headrace.core.errors import Location, Problem
from headrace.core.types import Schema
from headrace.plan.problems import Locator
from headrace.spec.findings import Finding, FindingsError, collecting
from headrace.spec.rows import PARTITION_KEY, TIMESTAMP_KEY, row_values

Path = tuple[str, ...]


def typed_frame(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pl.DataFrame:
    """Rows as a frame of `schema`, with columns `$timestamp` (epoch ms) and `$partition` if a row has them.

    A column that a row omits is NULL. Raises FindingsError with paths that begin with the row's index.
    """
    findings: list[Finding] = []
    values: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
        with collecting(findings, str(index)):
            values.append(row_values(row, schema))
    if findings:
        raise FindingsError(findings)
    types: dict[str, pl.DataType] = dict(schema.polars())
    types |= {key: pl.Int64() for key in (TIMESTAMP_KEY, PARTITION_KEY) if any(key in row for row in values)}
    columns = {
        name: pl.Series(name, [row.get(name) for row in values], dtype=dtype, strict=True)
        for name, dtype in types.items()
    }
    return pl.DataFrame(columns)


def problems_of(found: FindingsError, prefix: Path, locator: Locator | None) -> list[Problem]:
    """Findings about rows as problems with their places in the pipeline file."""
    return [_problem(finding.under(*prefix), locator) for finding in found.findings]


def _problem(finding: Finding, locator: Locator | None) -> Problem:
    location: Location | None = None if locator is None else locator.locate_in(finding.path, 0)
    return Problem(finding.message, finding.path, location, finding.remedy)
