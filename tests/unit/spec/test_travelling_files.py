"""Files that formats name travel with the pipeline: read where it is submitted, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.api.builder import Pipeline as Builder
from headrace.core.errors import InvalidPipelineError
from headrace.execution.format_preparation import prepare_formats
from headrace.execution.planning import JobPlans, plan_pipeline
from headrace.plan.explain import plan_dict
from headrace.spec import travelling_files
from headrace.spec.pipeline import FILES_KEY
from headrace.spec.reading.load_file import load_pipeline, with_files
from headrace.spec.reading.read import pipeline_from_dict
from headrace.spec.travelling_files import files_form, files_of
from support.third_party_site import importable, third_party_path


@pytest.fixture(autouse=True)
def site(tmp_path: Path) -> Iterator[None]:
    with importable(third_party_path(tmp_path / "site")):
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "mark").write_text(">")
    (tmp_path / "words.txt").write_text("one two")
    (tmp_path / "p.json").write_text(json.dumps(document(tmp_path)))
    return tmp_path


def document(folder: Path, form: object = None) -> dict[str, Any]:
    form = form or {"asking": {"registry": str(folder / "registry"), "words": "words.txt"}}
    return {
        "name": "p",
        "sources": {"s": {"files": {"path": "in"}, "format": form, "schema": {"t": "string"}}},
        "sinks": {"out": {"from": "s", "files": {"path": "out"}, "format": "raw"}},
    }


def test_a_pipeline_carries_what_its_formats_name(folder: Path) -> None:
    loaded = load_pipeline(folder / "p.json", environ={}).pipeline
    (folder / "words.txt").unlink()
    there = pipeline_from_dict(json.loads(json.dumps(loaded.to_dict())))
    assert there == loaded
    plan = plan_pipeline(there.to_dict())
    (prepared,) = prepare_formats(plan, {}).values()
    assert prepared["value"].learned == {"mark": ">", "words.txt": "one two"}
    assert JobPlans(there.to_dict()).facts(1).plan_hash == plan_dict(plan)["hash"]


def test_another_content_is_another_plan_and_another_question(folder: Path) -> None:
    plans = []
    for content in ("one", "two"):
        (folder / "words.txt").write_text(content)
        plans.append(plan_pipeline(load_pipeline(folder / "p.json", environ={}).pipeline.to_dict()))
    before = prepare_formats(plans[0], {})
    assert plan_dict(plans[0])["hash"] != plan_dict(plans[1])["hash"]
    assert prepare_formats(plans[1], before)["s"]["value"].learned["words.txt"] == "two"


def test_who_receives_a_pipeline_opens_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(InvalidPipelineError, match=r"sources.s.format: the file words.txt did not come"):
        plan_pipeline(document(folder))
    forged = document(folder) | {FILES_KEY: files_form({"words.txt": b"x"}) | {"contents": {"0": ""}}}
    with pytest.raises(InvalidPipelineError, match=r"did not come"):
        plan_pipeline(forged)


def test_a_missing_file_is_named_with_its_place(folder: Path) -> None:
    (folder / "words.txt").unlink()
    with pytest.raises(InvalidPipelineError, match=r"p.json:1:\d+: the file .*words.txt cannot be read: No such file"):
        load_pipeline(folder / "p.json", environ={})


def test_all_files_together_have_a_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(travelling_files, "FILES_BYTES_MAX", 6)
    with pytest.raises(InvalidPipelineError, match="formats are 1 with 7 bytes, and at most 256 with 6"):
        with_files(pipeline_from_dict(document(folder)), folder)


def test_a_pipeline_in_python_reads_from_its_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    data = document(folder)["sources"]["s"]
    builder = Builder("p")
    rows = builder.source("s", schema=data["schema"], format=data["format"], files=data["files"])
    rows.sink("out", files={"path": "out"}, format="raw")
    assert builder.build().files == {"words.txt": b"one two"}
    assert FILES_KEY not in builder.to_yaml()
    assert builder.build().shown()[FILES_KEY] == {"words.txt": travelling_files.file_hash(b"one two")}


def test_without_files_the_document_is_what_it_was(folder: Path) -> None:
    plain = document(folder, "raw")
    assert pipeline_from_dict(plain).to_dict() == plain
    assert "files" not in plan_dict(plan_pipeline(plain))["tasks"][0]["nodes"][0]["format"]


def test_equal_contents_travel_once() -> None:
    form = files_form({"a": b"x", "b": b"x", "c": b"\xff"})
    assert len(form["contents"]) == 2
    assert files_of(form) == {"a": b"x", "b": b"x", "c": b"\xff"}
    for broken in (None, {}, {"names": {"a": "0"}, "contents": {}}, {"names": {"a": "0"}, "contents": {"0": "%"}}):
        assert files_of(broken) == {}
