"""Formats that ask something before the first row: what they learned is asked for once, and comes back from records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.journal.records import AttemptRecord
from headrace.checkpoint.manifest import Formats, PreparedFormat, learned_of
from headrace.connect.registry import format_named
from headrace.core.errors import ExternalError, UserError
from headrace.execution import format_preparation
from headrace.execution.format_preparation import prepare_formats
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, JobState, LocalJob
from headrace.plan.physical import PhysicalPlan
from headrace.rpc.deployment import Deployment
from headrace.spec.reading.read import pipeline_from_dict
from support.third_party_site import importable, third_party_path


@pytest.fixture(autouse=True)
def site(tmp_path: Path) -> Iterator[None]:
    with importable(third_party_path(tmp_path / "site")):
        yield


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    folder = tmp_path / "registry"
    folder.mkdir()
    (folder / "mark").write_text(">")
    return folder


def plan(registry: Path, column: str = "text", **options: str) -> PhysicalPlan:
    form: dict[str, Any] = {"asking": {"registry": str(registry), **options}}
    files = registry.parent
    document = {
        "name": "p",
        "sources": {"s": {"files": {"path": str(files / "in")}, "format": form, "schema": {column: "string"}}},
        "sinks": {
            "out": {"from": "s", "files": {"path": str(files / "out")}, "format": form},
            "plain": {"from": "s", "files": {"path": str(files / "plain")}, "format": "json"},
        },
    }
    return compile_pipeline(pipeline_from_dict(document)).physical


def asked(registry: Path) -> list[str]:
    return (registry / "asked").read_text().splitlines()


def test_each_node_asks_once_for_its_life(registry: Path) -> None:
    prepared = prepare_formats(plan(registry), {})
    assert learned_of(prepared) == {"s": {"value": {"mark": ">"}}, "out": {"value": {"mark": ">"}}}
    assert asked(registry) == ["source s value after None", "sink out value after None"]

    (registry / "mark").unlink()
    again = plan(registry.parent / "elsewhere", password="another")
    assert prepare_formats(again, prepared) == prepared, "an address and a secret change no row"


def test_another_question_is_asked_and_knows_the_answer_before_it(registry: Path) -> None:
    prepared = prepare_formats(plan(registry), {}, sinks=False)
    (registry / "mark").write_text("#")
    changed = prepare_formats(plan(registry, ending="!"), prepared, sinks=False)
    assert learned_of(changed) == {"s": {"value": {"mark": "#"}}}
    assert asked(registry) == ["source s value after None", "source s value after {'mark': '>'}"]


def test_refusals_of_all_nodes_come_together_and_silence_at_once(registry: Path) -> None:
    with pytest.raises(UserError, match=r"(?s)2 problems.*s: no schema has.*out: no schema has"):
        prepare_formats(plan(registry, "refused"), {})
    with pytest.raises(ExternalError, match="s: the registry does not answer"):
        prepare_formats(plan(registry.parent / "elsewhere"), {})


def test_what_is_prepared_has_a_bound(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_preparation, "PREPARED_BYTES_MAX", 5)
    with pytest.raises(UserError, match="the schemas of its value take 13 bytes, and at most 5"):
        prepare_formats(plan(registry), {}, sinks=False)


def test_a_job_whose_formats_ask_nothing_has_the_documents_that_it_had() -> None:
    record = AttemptRecord(at_ms=0, attempt=1, parallelism=1, plan_hash="")
    deployment = Deployment(pipeline={}, plan_hash="", slot=0, slots=1, peers=(), storage="/job")
    assert "formats" not in record.model_dump_json() + deployment.model_dump_json()

    formats: Formats = {"s": {"value": PreparedFormat(question="q", learned={"a": 1})}}
    kept = record.model_copy(update={"formats": formats})
    assert AttemptRecord.model_validate_json(kept.model_dump_json()) == kept


def test_a_local_job_prepares_before_it_reads(registry: Path) -> None:
    files = registry.parent
    (files / "in").write_text(">a\n>b\n")
    job = LocalJob(plan(registry), JobOptions())
    assert job.run(lambda _: None) is JobState.FINISHED
    assert [path.read_text() for path in (files / "out").glob("part-*")] == [">a\n>b\n"]
    assert len(asked(registry)) == 2


def test_meaning_leaves_out_addresses_and_secrets(registry: Path) -> None:
    config = format_named("asking").config
    form = config.model_validate({"registry": str(registry), "password": "p", "ending": "!"})
    assert form.meaning() == {"ending": "!"}
    assert format_named("json").config().meaning() == {}
