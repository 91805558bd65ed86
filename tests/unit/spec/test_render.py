"""The JSON schema: it is the committed one, and it knows every key that the loader takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.connect import registry
from headrace.spec.reading.load import load_text
from headrace.spec.reading.read import pipeline_from_dict
from headrace.spec.render import TARGET, main, pipeline_schema, rendered

ROOT = Path(__file__).parents[3]

FILE = """\
name: all
parallelism: 2
max_parallelism: 16
batch: {max_delay: 1s, max_rows: 7}
checkpoint: {interval: none, mode: at-least-once, timeout: 1m, min_pause: 1s, tolerable_failures: 1, retained: 1}
state: {backend: memory}
restart: {strategy: exponential-delay, initial: 1s, max: 2m}
sources:
  a:
    memory: {name: a}
    schema: {x: int64, tags: [string], at: timestamp}
    time: {value: at, out_of_orderness: 1s, idle_after: 5s, max_drift: 1h}
    on_error: divert
    parallelism: 2
steps:
  b: {from: a, select: [x, tags, at], partition: rebalance, parallelism: 3}
  c: {from: b, with_columns: {z: x * 2}, on_error: skip}
  d: {from: c, drop: [z], partition: {hash: [x]}}
  e: {from: d, rename: {x: y}}
  f: {from: e, explode: tags}
  g: {union: [f, f2]}
  f2: {from: f, filter: y > 1}
  h: {from: g, map: {function: "a.b:c", schema: {y: int64, at: timestamp}}}
  i:
    from: h
    key_by: [y]
    window: {sliding: 10m, every: 1m, offset: 30s, timezone: UTC}
    aggregate: {n: count(*)}
    allowed_lateness: 1h
    lateness: operator
    order: arrival
sinks:
  out: {from: i.late, print: {}, parallelism: 1, partition: global}
tests:
  - name: one
    inputs: {a: [{x: 1, $partition: 2}]}
    outputs: {i: [{n: 1}]}
"""


def test_the_committed_schema_is_current() -> None:
    committed = (ROOT / TARGET).read_text(encoding="utf-8")
    assert committed == rendered(), "run: python -m headrace.spec.render"


def test_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "deep" / "schema.json"
    main([str(target)])
    assert target.read_text(encoding="utf-8") == rendered()
    assert capsys.readouterr().out == f"{target}\n"


class Checker:
    """As much of JSON schema as shows whether every key is known: `properties`, `$ref` and alternatives."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.root = schema

    def resolved(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        found = [schema]
        if "$ref" in schema:
            found += self.resolved(self.root["$defs"][schema["$ref"].removeprefix("#/$defs/")])
        for word in ("anyOf", "oneOf"):
            for branch in schema.get(word, ()):
                found += self.resolved(branch)
        return found

    def unknown(self, data: object, schema: dict[str, Any], path: str) -> list[str]:
        schemas = self.resolved(schema)
        if isinstance(data, list):
            items = [item["items"] for item in schemas if "items" in item]
            return [bad for item in data for bad in (self.unknown(item, items[0], f"{path}[]") if items else [])]
        if not isinstance(data, dict):
            return []
        bad: list[str] = []
        for key, value in data.items():
            below = [item["properties"][key] for item in schemas if key in item.get("properties", {})]
            below += [more for item in schemas if isinstance(more := item.get("additionalProperties"), dict)]
            free = any(item.get("additionalProperties") is True or item == {"type": "object"} for item in schemas)
            if not below and not free:
                bad.append(f"{path}.{key}")
            elif below:
                answers = [self.unknown(value, item, f"{path}.{key}") for item in below]
                fewest: list[str] = min(answers, key=len)
                bad += fewest
        return bad


def test_the_schema_knows_every_key_of_a_full_file() -> None:
    data = load_text(FILE, "all.yaml", environ={}).pipeline.to_dict()
    checker = Checker(pipeline_schema())
    assert checker.unknown(data, checker.root, "") == []
    data["steps"]["c"]["with_column"] = {}
    data["sinks"]["out"]["print"]["colour"] = "red"
    assert checker.unknown(data, checker.root, "") == [".steps.c.with_column", ".sinks.out.print.colour"]


def example(name: str, side: str, body: str) -> str:
    block = "".join(f"    {line}\n" for line in body.strip().splitlines())
    if side == "source":
        return f"name: p\nsources:\n  a:\n{block}sinks:\n  out:\n    from: a\n    print: {{}}\n"
    source = "    memory: {name: a}\n    schema: {origin: string}\n"
    return f"name: p\nsources:\n  a:\n{source}sinks:\n  out:\n    from: a\n{block}"


EXAMPLES = [
    (name, side, body)
    for name in registry.connector_names()
    for found in [registry.connector(name)]
    for side, body in (("source", found.example_source), ("sink", found.example_sink))
    if body
]


@pytest.mark.parametrize(("name", "side", "body"), EXAMPLES, ids=[f"{name}-{side}" for name, side, _ in EXAMPLES])
def test_connectors_examples_load_and_come_back(name: str, side: str, body: str) -> None:
    pipeline = load_text(example(name, side, body), "example.yaml", environ={}).pipeline
    data = pipeline.to_dict()
    assert pipeline_from_dict(data) == pipeline
    checker = Checker(pipeline_schema())
    assert checker.unknown(data, checker.root, "") == []
