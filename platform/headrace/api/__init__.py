"""The public API, `import headrace`: pipelines built in Python, their expressions, and jobs on a cluster.

Importing it loads no engine: polars and the connectors are loaded when a pipeline is built, planned or run.
"""

from headrace.api.builder import Pipeline, Stream, union
from headrace.api.cluster import cancel, jobs, rescale, savepoint, status, stop, submit, wait
from headrace.api.expression import (
    Aggregate,
    Expr,
    avg,
    case,
    col,
    count,
    first,
    fn,
    last,
    lit,
    max_,
    min_,
    sql,
    stddev,
    sum_,
    var,
)
from headrace.api.running import RunResult, load
from headrace.api.running import explain_model as explain
from headrace.api.running import run_model as run
from headrace.api.state import State, open_state

__all__ = [
    "Pipeline",
    "Stream",
    "union",
    "load",
    "run",
    "explain",
    "RunResult",
    "submit",
    "jobs",
    "status",
    "wait",
    "savepoint",
    "stop",
    "cancel",
    "rescale",
    "State",
    "open_state",
    "Aggregate",
    "Expr",
    "col",
    "lit",
    "sql",
    "fn",
    "case",
    "count",
    "sum_",
    "avg",
    "min_",
    "max_",
    "var",
    "stddev",
    "first",
    "last",
]
