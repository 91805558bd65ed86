"""Pipelines with mistakes in values that come from variables: nothing that is said about them contains such a value."""

from __future__ import annotations

import json

from headrace.client.errors import error_body
from headrace.core.errors import HeadraceError, InvalidPipelineError
from headrace.core.text.concealment import Concealment
from headrace.execution.planning import JobPlans
from headrace.local.engine.compile import compile_loaded
from headrace.local.pipeline_file import Loaded
from headrace.plan.every_problem import every_problem
from headrace.plan.explain import explain_dict, explain_lines
from headrace.rpc.failure import concealed_failure, failure_of
from headrace.spec.reading.load import LoadedPipeline, PartlyReadError, load_text
from support.planted.pipelines import everything
from support.planted.secrets import mistakes, planted, shown_in

MISTAKES = 300


def texts_of(text: str) -> list[str]:
    """Everything that commands, coordinator and page could say about a pipeline's text."""
    try:
        loaded = load_text(text, "p.yaml", environ=planted())
    except PartlyReadError as error:
        return said(error) + said(every_problem(error))
    except HeadraceError as error:
        return said(error)
    try:
        compiled = compile_loaded(Loaded(loaded.pipeline, loaded))
    except InvalidPipelineError as error:
        return said(error) + submitted(loaded)
    hides = Concealment(loaded.pipeline.hidden)
    plans = [*map(hides.text, explain_lines(compiled.logical, compiled.physical))]
    return [*plans, json.dumps(hides.data(explain_dict(compiled.logical, compiled.physical))), *submitted(loaded)]


def submitted(loaded: LoadedPipeline) -> list[str]:
    """What a coordinator says, which gets the pipeline in its file form."""
    plans = JobPlans(loaded.pipeline.to_dict())
    try:
        plans.facts(1)
    except InvalidPipelineError as error:
        return said(error)
    lost = concealed_failure(failure_of(OSError(json.dumps(plans.file_form(1)))), plans.concealment)
    return [str(lost)]


def said(error: HeadraceError) -> list[str]:
    return [str(error), repr(error.args), str(failure_of(error)), error_body(error).model_dump_json()]


def test_nothing_that_is_said_about_mistakes_contains_a_value() -> None:
    pipeline = everything("localhost:1", "numbers", "/nowhere")
    for text, places in mistakes(pipeline, MISTAKES, seed=1):
        for said_text in texts_of(text):
            assert not shown_in(said_text), (places, said_text)


def test_the_values_are_there_and_would_be_seen() -> None:
    text = json.dumps({**everything("localhost:1", "numbers", "/nowhere"), "max_parallelism": "64"})
    loaded = load_text(text.replace("some", "${VARIABLE_3}"), "p.yaml", environ=planted())
    assert shown_in(json.dumps(loaded.pipeline.to_dict()))
