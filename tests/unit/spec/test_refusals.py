"""What the model refuses, with dotted paths: the same checks serve files and the Python builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.errors import InvalidPipelineError
from headrace.spec.reading.read import pipeline_from_dict

pytestmark = pytest.mark.usefixtures("own_connectors")

Data = dict[str, Any]


def small() -> Data:
    return {
        "name": "p",
        "sources": {"a": {"generator": {}, "schema": {"x": "int64", "t": "timestamp"}}},
        "steps": {
            "b": {"from": "a", "filter": "x > 1"},
            "c": {"from": "b", "key_by": ["x"], "window": {"tumbling": "1h"}, "aggregate": {"n": "count(*)"}},
        },
        "sinks": {"out": {"from": "c", "print": {}}},
    }


def step(**fields: Any) -> Callable[[Data], None]:
    def change(data: Data) -> None:
        data["steps"]["b"] = {key.rstrip("_"): value for key, value in ({"from": "a"} | fields).items()}

    return change


def window(**fields: Any) -> Callable[[Data], None]:
    def change(data: Data) -> None:
        data["steps"]["c"]["window"] = fields

    return change


def put(path: str, value: Any) -> Callable[[Data], None]:
    def change(data: Data) -> None:
        *above, last = path.split(".")
        here = data
        for name in above:
            here = here[name]
        here[last] = value

    return change


def drop(path: str) -> Callable[[Data], None]:
    def change(data: Data) -> None:
        *above, last = path.split(".")
        here = data
        for name in above:
            here = here[name]
        del here[last]

    return change


CASES: list[tuple[Callable[[Data], None], list[str]]] = [
    (put("name", ""), ["name: '' is not a pipeline's name"]),
    (put("parallelism", "0"), ["parallelism: '0' is out of range: 'parallelism' must be at least 1"]),
    (put("parallelism", "two"), ["parallelism: 'parallelism' takes a whole number, not 'two'"]),
    (put("parallelism", 129), ["parallelism: parallelism 129 is above max_parallelism 128"]),
    (put("max_parallelism", "40000"), ["max_parallelism: '40000' is out of range"]),
    (
        put("checkpoint", {"mode": "exactly once"}),
        ["checkpoint.mode: 'exactly once' is not valid for 'mode'\n  did you mean 'exactly-once'?"],
    ),
    (put("checkpoint", {"interval": "soon"}), ["checkpoint.interval: 'soon' is not a duration"]),
    (
        put("checkpoint", {"retained": 0}),
        ["checkpoint.retained: 0 is out of range"],
    ),
    (put("state", {"backend": "rocksdb"}), ["state.backend: state backend 'rocksdb' is not in this version"]),
    (
        put("state", {"backend": "memroy"}),
        ["state.backend: 'memroy' is not valid for 'backend'\n  did you mean 'memory'?"],
    ),
    (
        put("restart", {"strategy": "fixed"}),
        ["restart.strategy: 'fixed' is not valid for 'strategy'\n  did you mean 'fixed-delay'?"],
    ),
    (
        put("restart", {"strategy": "fixed-delay", "failures": 3}),
        ["restart.attempts: missing 'attempts'", "restart.failures: unknown key 'failures'"],
    ),
    (
        put("restart", {"poison_after": 0}),
        ["restart.poison_after: takes a number from 1, or off, not 0"],
    ),
    (
        put("restart", {"poison_after": "never"}),
        ["restart.poison_after: takes a number from 1, or off, not 'never'"],
    ),
    (
        put("restart", {"strategy": "none", "poison_after": 3}),
        ["restart.poison_after: unknown key 'poison_after'"],
    ),
    (put("batch", {"max_delay": "-1s"}), ["batch.max_delay: '-1s' is not a duration"]),
    (put("batch", None), ["batch: 'batch' has no value"]),
    (drop("sources"), ["missing 'sources'", "steps.b.from: there is no node 'a'"]),
    (put("sinks", {}), ["sinks: 'sinks' is empty"]),
    (put("sources", []), ["sources: 'sources' takes a mapping", "steps.b.from"]),
    (drop("sources.a.schema"), ["sources.a.schema: missing 'schema'"]),
    (put("sources.a.schema", {}), ["sources.a.schema: has no columns"]),
    (
        put("sources.a.schema", {"x": "int65", "y": ["int64", "string"], "z": {"w": "strin"}}),
        [
            "sources.a.schema.x: unknown type 'int65'\n  did you mean 'int64'?",
            "sources.a.schema.y: a list type holds exactly one type, not 2",
            "sources.a.schema.z.w: unknown type 'strin'",
        ],
    ),
    (
        put("sources.a.schema", {"x": ["in64"], "__y": "int64"}),
        ["sources.a.schema.x.0: unknown type 'in64'", "sources.a.schema.__y: column '__y'"],
    ),
    (put("sources.a.time", {"column": "t", "value": "t"}), ["sources.a.time: takes column or value, not both"]),
    (put("sources.a.time", {"colum": "t"}), ["sources.a.time.colum: unknown key 'colum'\n  did you mean 'column'?"]),
    (put("sources.a.format", "json"), ["sources.a.format: connector 'generator' takes no format"]),
    (put("sources.a.partition", "global"), ["sources.a.partition: a source has no input"]),
    (put("sources.a.print", {}), ["sources.a.print: a source has one connector, and this one has 2: generator, print"]),
    (put("sources.a", {"schema": {"x": "int64"}}), ["sources.a: the source has no connector"]),
    (
        put("sources.a", {"print": {}, "schema": {"x": "int64"}}),
        ["sources.a.print: connector 'print' is for sinks only"],
    ),
    (
        put("sources.a", {"kafka": {"brokers": "b", "retries": -1}, "schema": {"x": "int64"}}),
        ["sources.a: missing 'format'", "sources.a.kafka.retries: -1 is out of range: 'retries' must be at least 0"],
    ),
    (
        put("sources.a", {"kafka": {"brokers": "b", "start": "now"}, "format": "json", "schema": {"x": "int64"}}),
        ["sources.a.kafka.start: 'now' is not valid for 'start'\n  valid: earliest or latest, or a mapping"],
    ),
    (
        put(
            "sources.a",
            {
                "kafka": {"brokers": "", "password": ["x"]},
                "format": {"csv": {"delimeter": ";"}},
                "schema": {"x": "int64"},
            },
        ),
        [
            "sources.a.format.csv.delimeter: unknown key 'delimeter'\n  did you mean 'delimiter'?",
            "sources.a.kafka.brokers",
            "sources.a.kafka.password: 'password' takes text, not this value",
        ],
    ),
    (
        put("sources.a.format", {"json": {}, "csv": {}}),
        ["sources.a.format: takes a format's name", "sources.a.format: connector"],
    ),
    (step(), ["steps.b: the step has no verb"]),
    (step(filter="x", drop=["x"]), ["steps.b.drop: a step does one thing, and this one has 2 verbs: filter, drop"]),
    (step(key_by=["x"]), ["steps.b: 'key_by' without an aggregate"]),
    (
        step(filter="x", window={"tumbling": "1h"}),
        ["steps.b.window: 'window' stands only beside `aggregate`, not beside 'filter'"],
    ),
    (
        step(filter=["x"]),
        ["steps.b.filter: takes an SQL expression as text, not a list\n  write one expression; `and` joins conditions"],
    ),
    (step(filter=" "), ["steps.b.filter: an expression is empty"]),
    (step(select=[]), ["steps.b.select: is empty"]),
    (step(select=["x", "x"]), ["steps.b.select.1: column 'x' is listed twice"]),
    (step(select=[{"y": "x"}]), ["steps.b.select.0: takes a column name, not a mapping\n  to compute a column"]),
    (
        step(select={"y": None, "__z": "x"}),
        ["steps.b.select.y: there is no expression", "steps.b.select.__z: column '__z'"],
    ),
    (step(with_columns=["x"]), ["steps.b.with_columns: takes a mapping of column name to expression, not a list"]),
    (step(drop="x"), ["steps.b.drop: takes a list of columns, not 'x'\n  write [x]"]),
    (step(drop=[]), ["steps.b.drop"]),
    (step(rename={"x": "z", "t": "z"}), ["steps.b.rename.t: column 'z' is listed twice"]),
    (step(rename=["x"]), ["steps.b.rename: takes a mapping of old name to new name, not a list"]),
    (step(explode=["x"]), ["steps.b.explode"]),
    (
        step(map={"function": "no path", "schema": {"x": "int64"}}),
        ["steps.b.map.function: 'no path' is not an import path"],
    ),
    (step(map={"function": "a.b:c"}), ["steps.b.map.schema: missing 'schema'"]),
    (step(map="a.b:c"), ["steps.b.map: takes a mapping, not 'a.b:c'"]),
    (step(union=["a", "a"]), ["steps.b.union.1: 'a' is listed twice", "steps.b.from: a union has no `from`"]),
    (step(union=["a"]), ["steps.b.union: unites at least two nodes, not 1", "steps.b.from"]),
    (step(aggregate={}), ["steps.b.aggregate: is empty"]),
    (
        step(aggregate={"n": "count(*)"}, lateness="mine", order="chaos"),
        [
            "steps.b.lateness: 'mine' is not valid for 'lateness'\n  valid values: row, operator",
            "steps.b.order: 'chaos' is not valid for 'order'\n  valid values: event, arrival",
        ],
    ),
    (
        step(filter="x", partition="forwards"),
        ["steps.b.partition: 'forwards' is not valid for 'partition'\n  did you mean 'forward'?"],
    ),
    (step(filter="x", partition={"hash": "x"}), ["steps.b.partition.hash: takes a list of columns, not 'x'"]),
    (
        step(filter="x", on_error="dead_letter"),
        ["steps.b.on_error: 'dead_letter' is not valid for 'on_error'\n  write it as {dead_letter: <topic>}"],
    ),
    (
        step(filter="x", on_error={"dead_letter": ""}),
        ["steps.b.on_error.dead_letter: 'dead_letter' is empty", "steps.b.on_error: dead letters go to"],
    ),
    (step(join={}), ["steps.b.join: 'join' is not in this version"]),
    (step(filter="x", emit={"early": "10s"}), ["steps.b.emit: 'emit' is not in this version"]),
    (window(), ["steps.c.window: a window has no kind"]),
    (window(tumbling="0s"), ["steps.c.window.tumbling: '0s' is out of range: 'tumbling' must be more than 0"]),
    (window(tumbling="1h", every="1m"), ["steps.c.window.every: unknown key 'every'"]),
    (window(sliding="1h"), ["steps.c.window.every: missing 'every'"]),
    (window(sliding="1h", every="2h"), ["steps.c.window.every: every 2h is longer than the window of 1h"]),
    (window(cumulate="1d", every="7h"), ["steps.c.window.every: every 7h does not divide the size 1d"]),
    (window(tumblin="1h"), ["steps.c.window.tumblin: unknown key 'tumblin'\n  did you mean 'tumbling'?"]),
    (window(tumbling="1h", sliding="1h"), ["steps.c.window.sliding: a window has one kind, not 2"]),
    (window(session="1h"), ["steps.c.window.session: window 'session' is not in this version"]),
    (put("steps.c.window", "1h"), ["steps.c.window: takes a mapping, not '1h'\n  write {tumbling: 1h}"]),
    (put("steps.c.from", "b.bad"), ["steps.c.from: 'b' has no output 'bad'\n  set `on_error: divert` on 'b'"]),
    (put("steps.b.from", "c.late"), ["steps.b.from: a cycle: b -> c -> b"]),
    (put("steps.b.from", "b"), ["steps.b.from: a cycle: b -> b"]),
    (put("steps.b.from", "out"), ["steps.b.from: 'out' is a sink: nothing can read it\n  read 'c' as it does"]),
    (
        put("sinks.out.from", "c.lat"),
        ["sinks.out.from: 'c' has no output 'lat'\n  did you mean 'late'? its side outputs: late"],
    ),
    (put("sinks.out.parallelism", 200), ["sinks.out.parallelism: parallelism 200 is above max_parallelism 128"]),
    (put("steps.c", "x"), ["steps.c: node 'c' takes a mapping, not 'x'"]),
    (put("steps.B", {"from": "a", "filter": "x"}), ["steps.B: 'B' is not a node's name"]),
    (
        put("steps.a__b", {"from": "b", "filter": "x"}),
        [
            "steps.a__b: 'a__b' has `__` in it: such names belong to nodes that the planner adds\n"
            "  name it 'a_b', and keep its state with `--rename a__b=a_b`"
        ],
    ),
    (put("steps.b__", {"from": "b", "filter": "x"}), ["steps.b__: 'b__' has `__` in it: "]),
    (put("steps.a", {"from": "b", "filter": "x"}), ["steps.a: 'a' is already a name in sources"]),
    (put("connections", {"m": {"kafak": {}}}), ["connections.m.kafak: unknown connector 'kafak'"]),
    (
        put("tests", [{"name": "n", "inputs": {"a": [{"x": "1.5"}]}, "outputs": {"nobody": []}}]),
        ["tests.0.outputs.nobody: outputs name no node 'nobody'", "tests.0.inputs.a.0.x: '1.5' is not a whole number"],
    ),
    (put("tests", {}), ["tests: 'tests' takes a list of cases, not a mapping"]),
    (put("tests", [{"inputs": {}}]), ["tests.0.name: missing 'name'", "tests.0.outputs: missing 'outputs'"]),
]


@pytest.mark.parametrize(("change", "expected"), CASES, ids=[case[1][0][:60] for case in CASES])
def test_refused(change: Callable[[Data], None], expected: list[str]) -> None:
    data = small()
    change(data)

    with pytest.raises(InvalidPipelineError) as raised:
        pipeline_from_dict(data)

    found = [str(problem) for problem in raised.value.problems]
    assert len(found) == len(expected), found
    for text, beginning in zip(found, expected, strict=True):
        assert text.startswith(beginning)


def test_every_cycle_is_named() -> None:
    data = small()
    for name, inputs in {"d": ["e", "f"], "e": ["b", "e2"], "e2": ["e", "b"], "f": ["g", "b"], "g": ["f", "b"]}.items():
        data["steps"][name] = {"union": inputs}
    with pytest.raises(InvalidPipelineError) as raised:
        pipeline_from_dict(data)
    assert [(problem.path, problem.message) for problem in raised.value.problems] == [
        (("steps", "e", "union", "1"), "a cycle: e -> e2 -> e"),
        (("steps", "f", "union", "0"), "a cycle: f -> g -> f"),
    ]


def test_not_a_mapping() -> None:
    with pytest.raises(InvalidPipelineError, match="a pipeline is a mapping, not a list"):
        pipeline_from_dict([])


def test_dead_letters_need_kafka_above() -> None:
    data = small()
    data["steps"]["b"]["on_error"] = {"dead_letter": "bad"}
    with pytest.raises(InvalidPipelineError, match=r"steps.b.on_error: dead letters go .* a above it is not one"):
        pipeline_from_dict(data)
    data["sources"]["a"] = {"kafka": {"brokers": "b"}, "format": "json", "schema": {"x": "int64"}}
    assert pipeline_from_dict(data)


def test_connections_give_fields_and_own_fields_win() -> None:
    data = small()
    data["connections"] = {
        "main": {"kafka": {"brokers": "b:1", "properties": {"p": "1", "q": "1"}, "retries": "7", "key": ["x"]}}
    }
    data["sources"]["a"] = {
        "kafka": {"use": "main", "properties": {"q": "2"}},
        "format": "json",
        "schema": {"x": "int64"},
    }
    data["sinks"]["out"] = {"from": "c", "kafka": {"use": "main", "topic": "t"}, "format": "json"}

    written = pipeline_from_dict(data).to_dict()

    assert written["sources"]["a"]["kafka"] == {
        "brokers": "b:1",
        "retries": 7,
        "properties": {"p": "1", "q": "2"},
    }
    assert written["sinks"]["out"]["kafka"]["key"] == ["x"]
    assert "connections" not in written


def test_a_mistake_in_a_connection_is_blamed_on_it() -> None:
    data = small()
    data["connections"] = {"main": {"kafka": {"brokers": "b:1", "retries": "x"}}}
    data["sources"]["a"] = {"kafka": {"use": "main"}, "format": "json", "schema": {"x": "int64"}}
    with pytest.raises(InvalidPipelineError) as raised:
        pipeline_from_dict(data)
    assert str(raised.value) == (
        "sources.a.kafka.use: 'retries' takes a whole number, not 'x'\n  it comes from connection 'main'"
    )


def test_secrets_are_not_shown() -> None:
    data = small()
    data["sources"]["a"] = {
        "kafka": {"brokers": "b", "password": "hush", "properties": {"sasl.password": "hush", "linger": "1"}},
        "format": "json",
        "schema": {"x": "int64"},
    }
    pipeline = pipeline_from_dict(data)
    assert pipeline.to_dict()["sources"]["a"]["kafka"]["password"] == "hush"
    assert pipeline.shown()["sources"]["a"]["kafka"] == {
        "brokers": "b",
        "password": "***",
        "properties": {"sasl.password": "***", "linger": "1"},
    }
    assert "hush" not in str(pipeline.shown())
    assert "hush" not in repr(pipeline.sources["a"].config.model_copy(update={"properties": {}}))
