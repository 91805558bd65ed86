"""A format of another package that knows nothing of contexts runs as it always did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.connect.format import Decoded, FormatContext, Messages
from headrace.connect.registry import format_named
from headrace.core.types import schema_of
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, JobState, LocalJob
from headrace.spec.reading.read import pipeline_from_dict
from support.third_party_site import importable, third_party_path

SCHEMA = schema_of({"text": "string"})


@pytest.fixture(autouse=True)
def site(tmp_path: Path) -> Iterator[None]:
    with importable(third_party_path(tmp_path / "site")):
        yield


def test_its_parts_have_the_present_contract() -> None:
    form = format_named("marked").config.model_validate({"mark": "#"})
    context = FormatContext("out", "sink")
    decoded = form.open_decoder(SCHEMA, context).decode(Messages(pa.array([b"#a", b"b", b"#c"], pa.binary())))
    assert isinstance(decoded, Decoded)
    assert (decoded.rows["text"].to_list(), decoded.bad.tolist()) == (["a", "c"], [1])
    assert form.open_encoder(SCHEMA, context).encode(decoded.rows).to_pylist() == ["#a", "#c"]
    check = form.open_check(SCHEMA, context)
    assert check is not None
    refused = check.refused(decoded.rows.with_columns(text=decoded.rows["text"].str.replace("a", "")))
    assert {row: each.why for row, each in refused.items()} == {0: "out writes no empty text"}
    assert form.model_dump() == {"mark": "#"}


def test_a_job_reads_and_writes_it(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(">a\nb\n>c\n")
    pipeline = pipeline_from_dict(
        {
            "name": "p",
            "sources": {
                "s": {
                    "files": {"path": str(tmp_path / "in.txt")},
                    "format": "marked",
                    "schema": {"text": "string"},
                    "on_error": "skip",
                }
            },
            "sinks": {
                "out": {"from": "s", "files": {"path": str(tmp_path / "out")}, "format": {"marked": {"mark": "!"}}}
            },
        }
    )
    job = LocalJob(compile_pipeline(pipeline).physical, JobOptions())
    assert job.run(lambda _: None) is JobState.FINISHED
    assert "".join(path.read_text() for path in (tmp_path / "out").glob("part-*")) == "!a\n!c\n"
