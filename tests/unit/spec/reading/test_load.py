"""The loader: text to pipeline, places, variables, overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent

import pytest

from headrace.core.errors import InvalidPipelineError, Location, UserError
from headrace.spec.reading.load import LoadedPipeline, load_text
from headrace.spec.reading.read import pipeline_from_dict
from headrace.spec.verbs.aggregate import Aggregate
from headrace.spec.verbs.filter import Filter
from headrace.spec.verbs.select import Select
from headrace.spec.verbs.with_columns import WithColumns

pytestmark = pytest.mark.usefixtures("own_connectors")

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
    with pytest.raises(InvalidPipelineError) as raised:
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
    assert pipeline_from_dict(pipeline.to_dict()) == pipeline


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


def test_a_mistake_under_an_alias_is_said_once() -> None:
    lines = wrong_lines(FLIGHTS.replace("${KAFKA_BROKERS:-localhost:9092}", "${KAFKA_BROKERS}"))
    assert lines == [
        "p.yaml:3:12: variable 'KAFKA_BROKERS' is not set",
        "  set it, or give a default: ${KAFKA_BROKERS:-default}",
    ]


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
            "steps.departed.filter='JFK' = origin",
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
    assert pipeline.steps["departed"].verb == Filter(predicate="'JFK' = origin")
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
    with pytest.raises(InvalidPipelineError) as raised:
        load(FLIGHTS, set_=["sources.flights.kafka.retries=many", "sources.flights.kafka.pasword=hush"])
    assert (
        str(raised.value).splitlines()[0]
        == "--set sources.flights.kafka.retries: 'retries' takes a whole number, not 'many'"
    )
    assert "hush" not in str(raised.value)
    assert "did you mean 'password'?" in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("filter: dep_delay is not null", "filter: *x", "p.yaml:21:13: YAML reads *x as an alias\n  quote this"),
        ("filter: dep_delay is not null", "filter: @x", "p.yaml:21:13: a value cannot begin with '@'\n  quote this"),
        ("filter: dep_delay is not null", "filter: > 1", "p.yaml:21:15: a value that begins with | or > is"),
        (
            "filter: dep_delay is not null",
            'filter: "a',
            "p.yaml:21:13: the quote that is opened here is closed only in line 28",
        ),
        ("filter: dep_delay is not null", "filter: (a,\n    b)", "p.yaml:22:5: this line is no `key: value`"),
        ("flights: count(*)", "flights: {a: 'b' || c}", "p.yaml:27:24: a value cannot begin with '|'\n  quote this"),
        ("worst: |", 'worst: "', "p.yaml:29:14: a quote is opened here and never closed"),
        ("key_by: [origin]", "key_by: [origin", "p.yaml:25:11: a ',' or ']' is missing before this"),
        ("key_by: [origin]", "key_by: origin]", "p.yaml:24:13: takes a list of columns, not 'origin]'"),
        ("topic: 123", 'topic: "\\q"', "p.yaml:8:16: \\q is no escape in a double-quoted text"),
        ("topic: 123", "topic: *common", "p.yaml:8:7: 'topic' takes text, not a mapping"),
        ("topic: 123", "topic: *unknown", "p.yaml:8:14: there is no anchor &unknown"),
        ("topic: 123", "topic: &self [*self]", "p.yaml:8:21: the alias *self stands inside of what it names"),
        ("topic: 123", "topic: - x", "p.yaml:8:14: a list entry '-' is not allowed here"),
        ("topic: 123", "? [topic]\n      : 123", "p.yaml:8:9: a key is text, not a list or mapping"),
        (
            "<<: *common",
            "<<: text",
            "p.yaml:6:5: missing 'brokers'\n  add `brokers:` here\np.yaml:7:11: << merges mappings only",
        ),
        ("topic: 123", "topic: ${A B}", "p.yaml:8:14: ${A B} names no variable"),
        ("[origin]", "[${A}]", "p.yaml:24:14: inside { } and [ ] YAML reads the brace of ${A} as its own"),
    ],
)
def test_yaml_that_is_wrong(old: str, new: str, expected: str) -> None:
    assert old in FLIGHTS
    lines = wrong_lines(FLIGHTS.replace(old, new))
    assert "\n".join(lines).startswith(expected)


def test_aliases_and_merges() -> None:
    text = FLIGHTS.replace("name: flight-delays", "x-where: &f dep_delay > 0\nname: flight-delays").replace(
        "    filter: dep_delay is not null", "    filter: *f"
    )
    assert load(text).pipeline.steps["departed"].verb == Filter(predicate="dep_delay > 0")
    text = FLIGHTS.replace("<<: *common\n", "<<: [*common, {topic: lost, group: g}]\n").replace(
        "start: earliest", "fast: on"
    )
    with pytest.raises(InvalidPipelineError, match="unknown key 'group'"):
        load(text)


def test_an_alias_bomb_is_refused() -> None:
    levels = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 8))
    text = f"x-bomb:\n  l0: &l0 a\n{levels}name: *l7\n"
    with pytest.raises(UserError, match="aliases unfold into more than"):
        load(text)


def test_too_deep_is_refused() -> None:
    assert "nested more than" in wrong_lines("name: " + "[" * 60 + "]" * 60)[0]


def test_flow_maps_cut_at_commas() -> None:
    lines = wrong_lines(
        FLIGHTS.replace(
            "filter: dep_delay is not null",
            "select: {a: substr(origin, 1, 2), b: dep_delay, c: coalesce(dep_delay, 0)}",
        )
    )
    assert [line for line in lines if line.startswith("p.yaml")] == [
        "p.yaml:21:17: inside { } and [ ] a comma ends a value, and cuts 'substr(origin, 1, 2)' apart",
        "p.yaml:21:56: inside { } and [ ] a comma ends a value, and cuts 'coalesce(dep_delay, 0)' apart",
    ]


def test_quoted_flow_maps_are_fine() -> None:
    text = FLIGHTS.replace(
        "filter: dep_delay is not null", 'with_columns: {a: "substr(origin, 1, 2)", b: lower(origin)}'
    )
    assert load(text).pipeline.steps["departed"].verb == WithColumns(
        columns=(("a", "substr(origin, 1, 2)"), ("b", "lower(origin)"))
    )
    text = FLIGHTS.replace("filter: dep_delay is not null", "select: [origin, dep_delay]  # what is used")
    assert load(text).pipeline.steps["departed"].verb == Select(
        columns=(("origin", '"origin"'), ("dep_delay", '"dep_delay"'))
    )


@pytest.mark.parametrize("text", ["dep_delay = #1", "concat(origin, 'a #')", "dep_delay > 1 and # why"])
def test_an_expression_cut_by_a_comment(text: str) -> None:
    text = text.replace("=", "= ").replace("  ", " ")
    lines = wrong_lines(FLIGHTS.replace("dep_delay is not null", text))
    assert lines == [
        f"p.yaml:21:13: a comment begins at the # and cuts this short: {text.split(' #')[0]!r}",
        "  quote this expression",
    ]


@pytest.mark.parametrize("text", ["dep_delay > 1 # why", "origin = 'it''s' # (so", "dep_delay > ${MIN:-1} # x"])
def test_a_comment_after_a_whole_expression_is_fine(text: str) -> None:
    assert load(FLIGHTS.replace("dep_delay is not null", text))


def test_several_problems_come_in_file_order() -> None:
    text = (
        FLIGHTS.replace("start: earliest", "start: now")
        .replace("tumbling: 1h", "tumbling: 1x")
        .replace("[origin]}", "[origin], mode: up}")
    )
    places = [line.split(": ")[0] for line in wrong_lines(text) if line.startswith("p.yaml")]
    assert places == ["p.yaml:9:14", "p.yaml:25:24", "p.yaml:35:58"]
