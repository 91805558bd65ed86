"""Every problem of a pipeline file: those of its structure, and those of the nodes that could be read. Pure."""

from __future__ import annotations

from headrace.core.errors import InvalidPipelineError
from headrace.plan.logical import problems_of
from headrace.spec.reading.load import PartlyReadError, in_file_order


def every_problem(error: PartlyReadError) -> InvalidPipelineError:
    """The error with the problems of columns and expressions added, in file order.

    A place has one problem: planning adds none where reading has found one.
    """
    if error.readable is None:
        return error
    known = {problem.path for problem in error.problems}
    planned = problems_of(error.readable.pipeline, error.readable)
    added = [problem for problem in planned if problem.path not in known]
    return InvalidPipelineError(in_file_order([*error.problems, *added]))
