"""The reference: no field lacks a description, and the planner accepts every example."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from headrace.connect.registry import bundled_connectors, bundled_formats
from headrace.local.engine.compile import compile_loaded
from headrace.local.pipeline_file import load_file
from headrace.spec.config_fields import ConfigField, config_fields
from headrace.spec.fields import DeadLetter, HashBy
from headrace.spec.pipeline import EventTime, PipelineFields, SinkFields, SourceFields, StepFields, TestCase
from headrace.spec.reference import connector_page, step_page
from headrace.spec.reference.step_page import PIPELINE
from headrace.spec.settings import STRATEGIES, Batch, Checkpoint, State
from headrace.spec.verbs.table import VERBS
from headrace.spec.window import KINDS

CONNECTORS = bundled_connectors()
OWN: tuple[type[BaseModel], ...] = (
    *(PipelineFields, SourceFields, StepFields, SinkFields, EventTime, TestCase, Batch, Checkpoint, State),
    *(DeadLetter, HashBy),
    *STRATEGIES.values(),
    *VERBS.values(),
    *KINDS.values(),
)
MODELS: dict[str, type[BaseModel]] = {
    **{f"{each.name} source": each.source for each in CONNECTORS if each.source is not None},
    **{f"{each.name} sink": each.sink for each in CONNECTORS if each.sink is not None},
    **{f"format {each.name}": each.config for each in bundled_formats()},
    **{model.__name__: model for model in OWN},
}


def undescribed(model: type[BaseModel]) -> list[str]:
    return [path for path, field in paths(config_fields(model)) if not field.description]


def paths(fields: tuple[ConfigField, ...]) -> Iterator[tuple[str, ConfigField]]:
    for field in fields:
        yield field.name, field
        yield from field.inner


@pytest.mark.parametrize("name", MODELS)
def test_every_field_has_a_description(name: str) -> None:
    assert undescribed(MODELS[name]) == []


class Inner(BaseModel):
    silent: int = 0


class Outer(BaseModel):
    by_name: dict[str, Inner]


def test_a_field_without_a_description_is_found() -> None:
    assert undescribed(Outer) == ["by_name", "by_name.NAME.silent"]


def planned(text: str, folder: Path) -> bool:
    file = folder / "pipeline.yaml"
    file.write_text(text)
    return bool(compile_loaded(load_file(str(file))).physical.tasks)


def indented(text: str, blanks: int) -> str:
    return "".join(f"{' ' * blanks}{line}\n" for line in text.rstrip().splitlines())


HOURLY = """\
  flights:
    memory: {name: flights}
    schema: {origin: string not null, dep_delay: float64, at: timestamp}
    time: {column: at}
steps:
  hourly: {from: flights, key_by: [origin], window: {tumbling: 1h}, aggregate: {worst: max(dep_delay)}}
"""
RAW_TOPIC = """\
  hourly:
    kafka:
      brokers: localhost:9092
      topic: flights
      metadata: {topic: topic, partition: partition, offset: offset, timestamp: timestamp, key: key, headers: headers}
    format: {raw: {tombstones: keep}}
    schema: {value: binary}
"""
"""What the archive sink takes: messages as they are."""


@pytest.mark.parametrize("name", [each.name for each in CONNECTORS if each.source is not None])
def test_the_example_of_a_source_is_planned(name: str, tmp_path: Path) -> None:
    (example,) = [each.example_source for each in CONNECTORS if each.name == name]
    assert planned(f"name: p\nsources:\n  a:\n{indented(example, 4)}sinks:\n  b: {{from: a, print: {{}}}}\n", tmp_path)


@pytest.mark.parametrize("name", [each.name for each in CONNECTORS if each.sink is not None])
def test_the_example_of_a_sink_is_planned(name: str, tmp_path: Path) -> None:
    (example,) = [each.example_sink for each in CONNECTORS if each.name == name]
    above = RAW_TOPIC if name == "archive" else HOURLY
    text = f"name: p\nsources:\n{above}sinks:\n  out:\n    from: hourly\n{indented(example, 4)}"
    assert planned(text, tmp_path)


@pytest.mark.parametrize("name", [each.name for each in bundled_formats()])
def test_the_example_of_a_format_is_planned(name: str, tmp_path: Path) -> None:
    (found,) = [each for each in bundled_formats() if each.name == name]
    example = found.example
    (tmp_path / "order.avsc").write_text('{"type": "record", "name": "Order", "fields": []}')
    ends = {end: f"files: {{path: {end}}}" for end in ("in", "out")}
    if not found.config.text_lines:
        ends = {end: f"kafka: {{brokers: 'h:1', topic: {end}}}" for end in ("in", "out")}
    schema = "" if "schema:" in example else "    schema: {value: string}\n"
    source = f"    {ends['in']}\n{indented(example, 4)}{schema}"
    (form,) = [line for line in example.splitlines() if line.startswith("format:")]
    sink = f"    from: a\n    {ends['out']}\n    {form}\n"
    assert planned(f"name: p\nsources:\n  a:\n{source}sinks:\n  b:\n{sink}", tmp_path)


FUNCTION = """\
import polars as pl

def add_score(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(score=pl.col("dep_delay") / 10)
"""


def with_steps(steps: str, last: str) -> str:
    """The pipeline of the page with these steps, of which a sink reads the last one."""
    above, sinks = PIPELINE.split("sinks:\n")
    return f"{above}{indented(steps, 2)}sinks:\n{sinks}  last: {{from: {last}, print: {{}}}}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_of_a_verb_is_planned(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "flight_functions.py").write_text(FUNCTION)
    example = VERBS[verb].EXAMPLE
    last = [line.rstrip(":") for line in example.splitlines() if not line.startswith(" ")][-1]
    assert f"\n  {verb}:" in example[example.index(f"{last}:\n") :]
    assert planned(with_steps(example, last), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_a_window_is_planned(kind: str, tmp_path: Path) -> None:
    assert f"{{{kind}: " in KINDS[kind].EXAMPLE
    steps = f"a:\n  from: departed\n  {KINDS[kind].EXAMPLE}  aggregate: {{flights: count(*)}}\n"
    assert planned(with_steps(steps, "a"), tmp_path)


def test_the_pages_show_what_readers_missed() -> None:
    text = connector_page.page()
    for field in ("group", "metadata.headers", "pattern", "timestamp", "create_topic.partitions"):
        assert f"| `{field}` |" in text
    assert "`earliest \\| latest \\| committed \\| archived \\| time \\| {partition: offset}" in text
    assert all(f"\n## {verb}\n" in step_page.page() for verb in VERBS)
