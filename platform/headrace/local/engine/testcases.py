"""Runs the `tests:` section of a pipeline: each case with the pipeline's batch size, in batches of 1 and of 7 rows.

The case's rows replace the sources; sinks are collected, steps are tapped. Appended rows must be equal as multisets,
updating rows by the last one of each key. Floats are compared bit by bit except for the sign of zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from headrace.core.errors import HeadraceError, InvalidPipelineError, Location, Problem, UserError
from headrace.core.text.concealment import Concealment
from headrace.core.types import Schema
from headrace.local.comparison.row_diff import RowDiff, diff_rows
from headrace.local.engine.compile import compile_loaded
from headrace.local.engine.pipeline_ends import input_schema, with_rows, with_taps
from headrace.local.engine.rows_run import compile_tapped, resized, run_on_rows
from headrace.local.pipeline_file import Loaded
from headrace.plan.nodes import LogicalNode
from headrace.plan.physical import RecordTime, SourceSpec
from headrace.plan.problems import Locator
from headrace.spec.findings import Finding, FindingsError, collecting
from headrace.spec.pipeline import Pipeline, TestCase
from headrace.spec.rows import PARTITION_KEY, TIMESTAMP_KEY, row_values

BATCH_ROWS: tuple[int | None, ...] = (None, 1, 7)
"""The batch sizes with which each case runs; None: the pipeline's own."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An output that differs from the expected rows. `batch_rows` None: with the pipeline's own batch size."""

    output: str
    batch_rows: int | None
    diff: RowDiff


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case. `error`: the job failed."""

    name: str
    mismatches: tuple[Mismatch, ...]
    error: HeadraceError | None = None

    @property
    def passed(self) -> bool:
        """Whether every output was as expected with every batch size."""
        return self.error is None and not self.mismatches


@dataclass(frozen=True, slots=True)
class PreparedCase:
    """A case with typed rows: frames by source and by output."""

    name: str
    inputs: Mapping[str, pl.DataFrame]
    outputs: Mapping[str, pl.DataFrame]


def prepare_cases(loaded: Loaded) -> tuple[PreparedCase, ...]:
    """All cases with typed rows. Raises InvalidPipelineError with every problem of the pipeline and of the rows."""
    compile_loaded(loaded)
    problems: list[Problem] = []
    prepared = [_prepared(case, index, loaded, problems) for index, case in enumerate(loaded.pipeline.tests)]
    if problems:
        concealment = Concealment(loaded.pipeline.hidden)
        raise InvalidPipelineError([concealment.problem(problem) for problem in problems])
    return tuple(prepared)


def run_cases(pipeline: Pipeline, cases: tuple[PreparedCase, ...]) -> Iterator[CaseResult]:
    """Runs one case after the other."""
    for case in cases:
        yield run_case(pipeline, case)


def run_case(pipeline: Pipeline, case: PreparedCase) -> CaseResult:
    """Runs a case with every batch size. Stops at the first size that fails: the others would show the same failure."""
    for batch_rows in BATCH_ROWS:
        try:
            run = run_on_rows(resized(pipeline, batch_rows=batch_rows), case.inputs, tuple(case.outputs))
        except HeadraceError as error:
            Concealment(pipeline.hidden).error(error)
            return CaseResult(case.name, (), error)
        differences = [
            Mismatch(name, batch_rows, diff)
            for name, expected in case.outputs.items()
            for output in [run.outputs[name]]
            for diff in [diff_rows(expected, output.latest(), key=output.update_key)]
            if diff.differs
        ]
        if differences:
            return CaseResult(case.name, tuple(differences))
    return CaseResult(case.name, ())


def _prepared(case: TestCase, index: int, loaded: Loaded, problems: list[Problem]) -> PreparedCase:
    path = ("tests", str(index))
    planned = _planned(case, loaded, path, problems)
    inputs = {}
    for name, rows in case.inputs.items():
        schema = input_schema(loaded.pipeline.sources[name])
        inputs[name] = _typed(rows, schema, (*path, "inputs", name), loaded, problems)
        if _needs_stamps(planned, name) and not all(TIMESTAMP_KEY in row for row in rows):
            message = f"the event time of {name} is its records' timestamp, and a row has none"
            remedy = "give each row `$timestamp`, or the source a `time:`"
            problems.append(_located(loaded, Finding(message, remedy, (*path, "inputs", name))))
    outputs = {}
    for name, rows in case.outputs.items():
        if name in planned.schemas:
            outputs[name] = _typed(rows, planned.schemas[name], (*path, "outputs", name), loaded, problems)
    return PreparedCase(case.name, inputs, outputs)


@dataclass(frozen=True, slots=True)
class _Planned:
    nodes: Sequence[LogicalNode]
    schemas: Mapping[str, Schema]


def _planned(case: TestCase, loaded: Loaded, path: tuple[str, ...], problems: list[Problem]) -> _Planned:
    """Plans the case's pipeline for the columns of its expected outputs; an output that does not exist is a problem."""
    schemas: dict[str, Schema] = {}
    nodes: Sequence[LogicalNode] = ()
    for reference in case.outputs:
        try:
            changed, taps = with_taps(with_rows(loaded.pipeline, {}), (reference,), keep_sinks=True)
            compiled, specs = compile_tapped(changed, taps)
        except UserError as error:
            problems.append(_located(loaded, Finding(error.message, error.remedy, (*path, "outputs", reference))))
        else:
            nodes = compiled.logical.nodes
            schemas[reference] = specs[reference].schema
    return _Planned(nodes, schemas)


def _needs_stamps(planned: _Planned, source: str) -> bool:
    specs = [node.spec for node in planned.nodes if node.name == source]
    return any(isinstance(spec, SourceSpec) and isinstance(spec.time, RecordTime) for spec in specs)


def _typed(
    rows: tuple[dict[str, object], ...],
    schema: Schema,
    path: tuple[str, ...],
    loaded: Loaded,
    problems: list[Problem],
) -> pl.DataFrame:
    try:
        return typed_frame(rows, schema)
    except FindingsError as found:
        problems += problems_of(found, path, loaded.locator)
        return schema.empty()


def _located(loaded: Loaded, finding: Finding) -> Problem:
    return problems_of(FindingsError([finding]), (), loaded.locator)[0]


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
