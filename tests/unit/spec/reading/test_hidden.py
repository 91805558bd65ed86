"""Which values of variables a file's errors and plans hide, and which everybody may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from headrace.core.errors import InvalidPipelineError
from headrace.plan.every_problem import every_problem
from headrace.plan.logical import plan_logical
from headrace.spec.pipeline import HIDDEN_KEY, Pipeline
from headrace.spec.reading.load import PartlyReadError, load_text, load_without_variables
from headrace.spec.reading.read import pipeline_from_dict

FILE = """\
name: ${NAME:-flights}
connections:
  main:
    kafka:
      brokers: ${BROKERS:-localhost:9092}
sources:
  flights:
    kafka:
      use: main
      topic: ${TOPIC:-flights}
    format: json
    schema:
      n: int64
steps:
  chosen:
    from: flights
    filter: n > 0 and ${CHOICE:-true}
sinks:
  out:
    from: chosen
    print: {}
"""


def load(environ: Mapping[str, str], *, set_: Sequence[str] = (), text: str = FILE) -> Pipeline:
    return load_text(text, "p.yaml", set_=set_, environ=environ).pipeline


def problems(environ: Mapping[str, str], text: str = FILE) -> str:
    try:
        loaded = load_text(text, "p.yaml", environ=environ)
        plan_logical(loaded.pipeline, loaded)
    except PartlyReadError as error:
        return str(every_problem(error))
    except InvalidPipelineError as error:
        return str(error)
    raise AssertionError("it has no mistake")


def test_a_value_is_hidden_unless_it_is_a_default_of_the_file() -> None:
    assert load({"TOPIC": "hunter2"}).hidden == {"TOPIC": ("hunter2",)}
    assert not load({}).hidden
    assert not load({"TOPIC": "flights"}).hidden, "the file shows it"


def test_the_pipelines_name_and_addresses_of_brokers_are_public() -> None:
    assert not load({"NAME": "night-flights", "BROKERS": "kafka-1.prod:9092, kafka-2.prod:9092"}).hidden
    # what only looks like one, and a public one that has another place, too
    assert set(load({"BROKERS": "hunter2"}).hidden) == {"BROKERS"}
    both = FILE.replace("${TOPIC:-flights}", "${BROKERS}").replace("brokers: ${BROKERS:-", "brokers: ${X:-")
    assert "hunter2" not in problems({"BROKERS": "hunter2:9092"}, both)


@pytest.mark.parametrize(
    ("name", "value"),
    [("NAME", "hunter2 VERY secret"), ("TOPIC", "hunter2 VERY secret"), ("CHOICE", "hunter2 VERY secret")],
)
def test_an_error_shows_the_variable(name: str, value: str) -> None:
    text = problems({name: value})
    assert f"${{{name}}}" in text
    assert not any(word in text.lower() for word in value.lower().split())


def test_set_shows_what_was_typed_and_hides_its_variables() -> None:
    assert load({"T": "hunter2"}, set_=["sources.flights.kafka.topic=${T}"]).hidden == {"T": ("hunter2",)}
    assert not load({}, set_=["sources.flights.kafka.topic=typed"]).hidden
    # a shell may have replaced the same variable in `--set`
    again = load({"TOPIC": "hunter2"}, set_=["steps.chosen.filter=n > length('hunter2')"])
    assert again.hidden == {"TOPIC": ("hunter2",)}


def test_hidden_texts_travel_with_the_file_form() -> None:
    pipeline = load({"CHOICE": "hunter2"}, text=FILE.replace("${CHOICE:-true}", "length('${CHOICE}') > 0"))
    document = pipeline.to_dict()
    assert pipeline_from_dict(document) == pipeline
    document["steps"]["chosen"]["filter"] = "n > hunter2"
    with pytest.raises(InvalidPipelineError) as caught:
        plan_logical(pipeline_from_dict(document))
    assert "hunter2" not in str(caught.value)
    document["steps"]["chosen"] = {"from": "hunter2", "filter": "true"}
    with pytest.raises(InvalidPipelineError) as caught:
        pipeline_from_dict(document)
    assert "hunter2" not in str(caught.value)


def test_a_file_cannot_say_what_is_hidden() -> None:
    assert not load({}, text=FILE + f"{HIDDEN_KEY}: {{X: [flights]}}\n").hidden
    assert not pipeline_from_dict({**load({}).to_dict(), HIDDEN_KEY: "flights"}).hidden


def test_without_variables_mistakes_elsewhere_are_found() -> None:
    text = FILE.replace("${TOPIC:-flights}", "${TOPIC}").replace("${CHOICE:-true}", "${CHOICE}")
    read = load_without_variables(text, "p.yaml")
    assert not read.problems
    assert read.opaque == {("sources", "flights", "kafka", "topic"), ("steps", "chosen", "filter")}
    wrong = load_without_variables(text.replace("n: int64", "n: in64"), "p.yaml")
    assert [problem.path for problem in wrong.problems] == [("sources", "flights", "schema", "n")]
