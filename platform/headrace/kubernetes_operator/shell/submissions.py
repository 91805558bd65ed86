"""Submits the pipeline of a HeadraceJob, and words refusals with their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.client.submission import file_form
from headrace.core.errors import ExternalError, InvalidPipelineError, Problem, UserError
from headrace.kubernetes_operator.decisions.results import Delayed, Refused, Submitted
from headrace.kubernetes_operator.decisions.steps import Submit
from headrace.plan.every_problem import every_problem
from headrace.spec.reading.load import LoadedPipeline, PartlyReadError, load_text

FILE = "pipeline"
"""Names the pipeline in problems: `pipeline:7:3: ..`."""


def submit(client: Client, step: Submit, variables: Mapping[str, str]) -> Submitted | Refused | Delayed:
    """Reads the pipeline and submits it. variables: what `${NAME}` stands for; never the operator's own environment."""
    try:
        loaded = load_text(step.spec.pipeline, FILE, environ=variables)
    except PartlyReadError as error:
        return _invalid(step, every_problem(error).problems)
    except InvalidPipelineError as error:
        return _invalid(step, error.problems)
    except UserError as error:
        return Refused(step.key, "InvalidPipeline", str(error))
    request = SubmitRequest(
        pipeline=file_form(loaded.pipeline),
        parallelism=step.spec.parallelism,
        from_savepoint=step.origin,
        take_over=step.takes_over,
        allow_dropped_state=step.spec.allow_dropped_state,
        accepted_topics=step.spec.accept_new_topics,
        key=step.key,
    )
    try:
        return Submitted(step.key, client.submit(request))
    except InvalidPipelineError as error:
        return _invalid(step, [_located(problem, loaded) for problem in error.problems])
    except (UserError, ExternalError) as error:
        if error.retry:
            return Delayed(str(error))
        return Refused(step.key, "Refused" if isinstance(error, UserError) else "ClusterFailed", str(error))


def _invalid(step: Submit, problems: Iterable[Problem]) -> Refused:
    is_object = step.spec.pipeline.startswith("{")
    return Refused(step.key, "InvalidPipeline", "\n".join(_text(problem, by_path=is_object) for problem in problems))


def _text(problem: Problem, *, by_path: bool) -> str:
    """Of a pipeline that was written as an object nobody knows lines."""
    if by_path and problem.path:
        problem = Problem(problem.message, problem.path, None, problem.remedy)
    return str(problem)


def _located(problem: Problem, loaded: LoadedPipeline) -> Problem:
    """The coordinator names a path: only here the lines are known."""
    if problem.location is not None:
        return problem
    return Problem(problem.message, problem.path, loaded.locate(problem.path), problem.remedy)
