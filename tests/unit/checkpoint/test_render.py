"""The JSON schema of manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.checkpoint.manifest import Manifest, PreparedFormat
from headrace.checkpoint.render import TARGET, main, manifest_schema, rendered
from support.repository import ROOT
from support.storage.checkpoints import manifest


def test_the_committed_schema_is_current() -> None:
    committed = (ROOT / TARGET).read_text(encoding="utf-8")
    assert committed == rendered(), "run: python -m headrace.checkpoint.render"


def test_it_knows_every_field_that_a_manifest_is_written_with() -> None:
    schema = manifest_schema()
    # left out where no format has prepared anything
    formats = {"flights": {"value": PreparedFormat(question="q", learned={})}}
    made = manifest(3, files=["state/a"], sinks=["out"]).model_copy(update={"formats": formats})
    written = json.loads(made.model_dump_json())
    assert written.keys() == schema["properties"].keys() == Manifest.model_fields.keys()
    handle = schema["$defs"]["StateHandle"]["properties"]
    assert written["states"][0].keys() == handle.keys()


def test_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "deep" / "schema.json"
    main([str(target)])
    assert target.read_text(encoding="utf-8") == rendered()
    assert capsys.readouterr().out == f"{target}\n"
