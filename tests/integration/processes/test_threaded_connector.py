"""A connector of somebody else starts a thread when it is imported: it works in every process that is forked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.clusters.session import running_cluster
from support.third_party_site import third_party_path

ROWS = 1_000
PIPELINE = f"""
name: counted
sources: {{numbers: {{threaded: {{rows: {ROWS}, columns: {{n: {{sequence: {{}}}}}}}}, schema: {{n: int64}}}}}}
sinks: {{out: {{from: numbers, files: {{path: PLACE}}, format: json}}}}
"""


@pytest.mark.parametrize("command", [("submit", "--wait"), ("run",)], ids=["cluster", "run"])
def test_a_thread_that_an_import_starts_is_where_its_rows_are(command: tuple[str, ...], tmp_path: Path) -> None:
    site = third_party_path(tmp_path / "site")
    file, place = tmp_path / "counted.yaml", tmp_path / "out"
    file.write_text(PIPELINE.replace("PLACE", str(place)))
    with running_cluster(tmp_path / "c", workers=1, slots=1, python_path=site) as cluster:
        # twice: the second job gets processes of a template that has served one
        for times in (1, 2):
            done = cluster.headrace(command[0], str(file), *command[1:])
            assert done.code == 0, done.err
            lines = [line for part in place.glob("*") for line in part.read_text().splitlines()]
            assert sorted(json.loads(line)["n"] for line in lines) == sorted(list(range(ROWS)) * times)
