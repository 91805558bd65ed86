"""Names of objects: made and read in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.checkpoint import paths
from headrace.checkpoint.unique_names import unique_part
from headrace.core.settings import Home


def test_names_are_read_as_they_are_made() -> None:
    assert paths.record_path(7) == "journal/00000007.json"
    assert paths.record_number("s3://bucket/job/journal/00000007.json") == 7
    assert paths.record_number(paths.record_path(123_456_789)) == 123_456_789
    name = paths.state_path(2, 15, "late.bad", 3, unique_part())
    assert paths.state_file(name) == paths.StateFile(2, 15, "late.bad", 3)


@pytest.mark.parametrize(
    "name", ["journal/7.json", "journal/00000007.json.bak", "other/00000007.json", "journal/.tmp-1"]
)
def test_other_names_are_no_records(name: str) -> None:
    assert paths.record_number(name) is None
    assert paths.state_file(name) is None


def test_paths_below_and_elsewhere() -> None:
    assert paths.joined("s3://bucket/job/", "state/a") == "s3://bucket/job/state/a"
    assert paths.joined("/storage/job", "/other/state/a") == "/other/state/a"
    assert paths.joined("/storage/job", "s3://b/state/a") == "s3://b/state/a"
    assert paths.parted("file:///a/b/c") == ("file:///a/b", "c")


def test_savepoints_and_jobs_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert paths.job_url("storage", "job") == f"{tmp_path}/storage/job"
    assert paths.savepoint_url("s3://b/sp", "job", 4, "ab") == "s3://b/sp/savepoint-job-4-ab"
    assert str(Home(tmp_path).checkpoints) == f"{tmp_path}/checkpoints"
