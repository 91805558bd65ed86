"""docs/pipeline-file.md: its pipelines load, and it names every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from headrace.spec.pipeline import EventTime, PipelineFields, SinkFields, SourceFields, StepFields, TestCase
from headrace.spec.reading.load import load_text
from headrace.spec.settings import STRATEGIES, Batch, Checkpoint, State
from headrace.spec.verbs.aggregate import Aggregate
from headrace.spec.verbs.map import Map
from headrace.spec.verbs.table import LATER_VERBS, VERBS
from headrace.spec.window import KINDS
from headrace.spec.wording import file_keys

TEXT = (Path(__file__).parents[3] / "docs" / "pipeline-file.md").read_text(encoding="utf-8")
PIPELINES = [block for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL) if block.startswith("name:")]
MODELS: list[type[BaseModel]] = [
    PipelineFields,
    SourceFields,
    StepFields,
    SinkFields,
    EventTime,
    TestCase,
    Batch,
    Checkpoint,
    State,
    Map,
    Aggregate,
    *STRATEGIES.values(),
    *KINDS.values(),
]


@pytest.mark.parametrize("text", PIPELINES)
def test_the_pipelines_of_the_reference_load(text: str) -> None:
    assert load_text(text, "docs/pipeline-file.md", environ={}).pipeline.name


def test_every_field_is_named() -> None:
    assert len(PIPELINES) == 2
    keys = {key for model in MODELS for key in file_keys(model)} | set(VERBS) | set(LATER_VERBS) | set(STRATEGIES)
    missing = [key for key in sorted(keys) if not re.search(rf"[`{{ ]{key}[`:, }}]", TEXT)]
    assert missing == []
