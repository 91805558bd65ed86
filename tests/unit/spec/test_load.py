"""The loader: text to pipeline, places, variables, overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent

import pytest

from headrace.core.errors import InvalidPipeline, Location, UserError
from headrace.spec.load import LoadedPipeline, load_text
from headrace.spec.pipeline import Pipeline
from headrace.spec.verbs import Aggregate, Filter

FLIGHTS = """\
name: flight-delays
x-common: &common
  brokers: ${KAFKA_BROKERS:-localhost:9092}
sources:
  flights:
    kafka:
      <<: *common
      topic: 123
      start: earliest
    format: json
    schema:
      origin: string not null
      dep_delay: float64
      scheduled: timestamp
    time:
      column: scheduled
      out_of_orderness: 30m
steps:
  departed:
    from: flights
    filter: dep_delay is not null
  hourly:
    from: departed
    key_by: [origin]
    window: {tumbling: 1h}
    aggregate:
      flights: count(*)
      mean_delay: "avg(dep_delay)"
      worst: |
        max(
          dep_delay)
sinks:
  delays:
    from: hourly
    kafka: {<<: *common, topic: no, key: [origin]}
    format: json
"""


def load(text: str, *, set_: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> LoadedPipeline:
    return load_text(dedent(text), "p.yaml", set_=set_, environ=environ or {})


def wrong_lines(text: str, *, environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(InvalidPipeline) as raised:
        load(text, environ=environ)
    return str(raised.value).splitlines()


def test_loads_the_designs_pipeline() -> None:
    loaded = load(FLIGHTS)

    pipeline = loaded.pipeline
    assert pipeline.sources["flights"].to_dict()["kafka"] == {"brokers": "localhost:9092", "topic": "123"}
    assert pipeline.sinks["delays"].to_dict()["kafka"]["topic"] == "no"
    verb = pipeline.steps["hourly"].verb
    assert isinstance(verb, Aggregate)
    assert dict(verb.aggregate)["worst"] == "max(\n  dep_delay)\n"
    assert Pipeline.from_dict(pipeline.to_dict()) == pipeline


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        (("name",), 1, 7),
        (("sources", "flights", "kafka"), 6, 5),
        (("sources", "flights", "kafka", "topic"), 8, 14),
        (("sources", "flights", "kafka", "brokers"), 3, 12),
        (("sources", "flights", "kafka", "nothing"), 6, 5),
        (("steps", "hourly"), 22, 3),
        (("steps", "hourly", "key_by", "0"), 24, 14),
        (("steps", "hourly", "key_by", "origin"), 24, 14),
        (("steps", "hourly", "aggregate", "mean_delay"), 28, 19),
        (("nowhere",), 1, 1),
    ],
)
def test_locates(path: tuple[str, ...], line: int, column: int) -> None:
    assert load(FLIGHTS).locate(path) == Location("p.yaml", line, column)


@pytest.mark.parametrize(
    ("path", "offset", "line", "column"),
    [
        (("steps", "departed", "filter"), 0, 21, 13),
        (("steps", "departed", "filter"), 10, 21, 23),
        (("steps", "hourly", "aggregate", "mean_delay"), 4, 28, 24),
        (("steps", "hourly", "aggregate", "worst"), 0, 30, 9),
        (("steps", "hourly", "aggregate", "worst"), 7, 31, 11),
        (("sources", "flights", "kafka", "brokers"), 4, 3, 12),
    ],
)
def test_locates_inside_an_expression(path: tuple[str, ...], offset: int, line: int, column: int) -> None:
    assert load(FLIGHTS).locate_in(path, offset) == Location("p.yaml", line, column)


def test_locates_inside_folded_and_escaped_text() -> None:
    text = FLIGHTS.replace("    filter: dep_delay is not null", "    filter: a is\n      not 'it'\n      and bcd")
    loaded = load(text)
    assert loaded.pipeline.steps["departed"].verb == Filter(predicate="a is not 'it' and bcd")
    assert loaded.locate_in(("steps", "departed", "filter"), 18) == Location("p.yaml", 23, 11)
    text = FLIGHTS.replace("filter: dep_delay is not null", "filter: 'a = ''x'' or b'")
    assert load(text).locate_in(("steps", "departed", "filter"), 11) == Location("p.yaml", 21, 27)


def test_variables() -> None:
    loaded = load(FLIGHTS, environ={"KAFKA_BROKERS": "a:1,b:2"})
    assert loaded.pipeline.sources["flights"].to_dict()["kafka"]["brokers"] == "a:1,b:2"
    text = FLIGHTS.replace("topic: 123", "topic: ${A}-$${B}-${C:-}x$")
    assert (
        load(text, environ={"A": "1", "C": ""}).pipeline.sources["flights"].to_dict()["kafka"]["topic"] == "1-${B}-x$"
    )


def test_overrides() -> None:
    loaded = load(
        FLIGHTS,
        set_=[
            "sources.flights.kafka.topic=other",
            'sources.flights.kafka.properties."a.b"=c=d',
            "steps.hourly.key_by=[origin, x]",
            "steps.hourly.aggregate.flights=count(x) # y",
            "steps.hourly.key_by.1=dep_delay",
            "batch.max_rows=${ROWS}",
            "sinks.delays.kafka.brokers=z:1",
        ],
        environ={"ROWS": "5"},
    )
    pipeline = loaded.pipeline
    kafka = pipeline.sources["flights"].to_dict()["kafka"]
    assert kafka == {"brokers": "localhost:9092", "topic": "other", "properties": {"a.b": "c=d"}}
    assert pipeline.sinks["delays"].to_dict()["kafka"]["brokers"] == "z:1"
    verb = pipeline.steps["hourly"].verb
    assert isinstance(verb, Aggregate)
    assert verb.key_by == ("origin", "dep_delay")
    assert dict(verb.aggregate)["flights"] == "count(x) # y"
    assert pipeline.batch.max_rows == 5
    assert str(loaded.locate(("sources", "flights", "kafka", "topic"))) == "--set sources.flights.kafka.topic"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "sources.flihgts.kafka.topic=x",
            "--set sources.flihgts.kafka.topic: there is no source 'flihgts'\n"
            "  did you mean 'flights'? sources: flights",
        ),
        ("naem=x", "--set naem: unknown field 'naem'\n  did you mean 'name'?"),
        ("name.x=y", "--set name.x: 'name' holds one value, nothing stands below it"),
        ("name", "--set name: not `path=value`"),
        ("steps.hourly.key_by.7=x", "--set steps.hourly.key_by.7: 'steps.hourly.key_by' is a list"),
        ("steps.hourly.key_by=[a", "--set steps.hourly.key_by: the value is not YAML"),
        ("steps..x=[a", "--set steps..x: not `path=value`"),
    ],
)
def test_refused_overrides(setting: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        load(FLIGHTS, set_=[setting])
    assert str(raised.value).startswith(message)


def test_a_wrong_override_shows_its_path_and_not_its_value() -> None:
    with pytest.raises(InvalidPipeline) as raised:
        load(FLIGHTS, set_=["sources.flights.kafka.retries=many", "sources.flights.kafka.pasword=hush"])
    assert (
        str(raised.value).splitlines()[0]
        == "--set sources.flights.kafka.retries: 'retries' takes a whole number, not 'many'"
    )
    assert "hush" not in str(raised.value)
    assert "did you mean 'password'?" in str(raised.value)
