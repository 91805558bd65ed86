from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import UserError
from headrace.spark.launch.bounds import bounded, parsed, up_to_now
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from support.storage.manifests import manifest

SCHEMA = {"id": "int64 not null"}
MADE = {"generator": {"rows": 10, "columns": {"id": {"sequence": {}}}}, "schema": SCHEMA}
READ = {"kafka": {"brokers": "b:1", "topic": "t"}, "format": "json", "schema": SCHEMA}
FOREVER = {"generator": {"columns": {"id": {"sequence": {}}}}, "schema": SCHEMA}


def pipeline(**sources: Any) -> Pipeline:
    sinks = {f"out_{name}": {"from": name, "print": {}} for name in sources}
    return pipeline_from_dict({"name": "p", "sources": sources, "sinks": sinks})


def bounds(document: dict[str, Any], bound: str) -> dict[str, Any]:
    sources = document["sources"].items()
    return {name: (source.get("kafka") or source.get("generator")).get(bound) for name, source in sources}


def test_without_a_bound_everything_that_there_is_now() -> None:
    both = pipeline(made=MADE, read=READ)
    assert bounds(bounded(both, begin=None, end=None), "stop") == {"made": "latest", "read": "latest"}


def test_a_sources_own_stop_stays() -> None:
    own = READ | {"kafka": {**READ["kafka"], "stop": {0: 3}}}  # type: ignore[dict-item]
    assert bounds(bounded(pipeline(read=own), begin=None, end=None), "stop") == {"read": {"0": 3}}
    assert bounds(up_to_now(pipeline(read=own).to_dict()), "stop") == {"read": "latest"}


@pytest.mark.parametrize(
    ("end", "stops"),
    [
        ("latest", {"made": "latest", "read": "latest"}),
        ("2024-05-01T00:00:00Z", {"made": None, "read": "2024-05-01T00:00:00Z"}),
        ('{"0": 5}', {"made": None, "read": {"0": 5}}),
        ('{"t": {"0": 5}, "made": {"0": 7}}', {"made": {"0": 7}, "read": {"t": {"0": 5}}}),
    ],
)
def test_an_end_for_logs_and_others(end: str, stops: dict[str, Any]) -> None:
    document = bounded(pipeline(made=MADE, read=READ), begin=None, end=end)
    assert bounds(document, "stop") == stops
    pipeline_from_dict(document)


def test_offsets_where_no_source_is_a_log() -> None:
    document = bounded(pipeline(made=MADE), begin=None, end='{"0": 5}')
    assert bounds(document, "stop") == {"made": {"0": 5}}
    pipeline_from_dict(document)


def test_a_savepoint_is_an_end_for_every_source() -> None:
    positions = {"made": [("made", 0, 4)], "read": [("t", 0, 9), ("t", 1, 0)]}
    document = bounded(pipeline(made=MADE, read=READ), begin=None, end=manifest(positions))
    assert bounds(document, "stop") == {"made": {"made": {"0": 4}}, "read": {"t": {"0": 9, "1": 0}}}
    pipeline_from_dict(document)
    with pytest.raises(UserError, match="the savepoint has no source 'read'"):
        bounded(pipeline(read=READ), begin=None, end=manifest({"made": [("made", 0, 4)]}))


@pytest.mark.parametrize(("begin", "end", "option"), [("earliest", None, "--from"), (None, "2024-05-01", "--until")])
def test_a_bound_that_no_source_takes(begin: str | None, end: str | None, option: str) -> None:
    with pytest.raises(UserError, match=f"{option}: no source of p has a"):
        bounded(pipeline(made=MADE), begin=begin, end=end)


def test_rows_without_end_have_no_latest() -> None:
    with pytest.raises(UserError, match="without end"):
        pipeline_from_dict(bounded(pipeline(made=FOREVER), begin=None, end=None))
    pipeline_from_dict(bounded(pipeline(made=FOREVER), begin=None, end='{"0": 5}'))


def test_text_that_is_no_json() -> None:
    with pytest.raises(UserError, match="is no JSON"):
        parsed("{0: 5}")
