"""Savepoints and retained checkpoints as places: found by what users name, checked, refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import Record
from headrace.checkpoint.manifest import FORMAT, Manifest
from headrace.checkpoint.savepoints.savepoint import (
    checkpoint_url,
    damage,
    delete_savepoint,
    find,
    release_savepoint,
    write_savepoint,
)
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError, UserError
from support.storage.checkpoints import attempt, checkpoint, committed, manifest


def savepoint(folder: Path) -> Manifest:
    """A savepoint with one file of state, but without its manifest."""
    (folder / "state").mkdir(parents=True)
    (folder / "state" / "a").write_bytes(b"data")
    return manifest(4, files=["state/a"]).model_copy(update={"kind": "savepoint"})


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job's folder with two retained checkpoints."""
    folder = tmp_path / "checkpoints" / "job"
    (folder / "state").mkdir(parents=True)
    (folder / "state" / "a").write_bytes(b"data")
    writer = JournalStore(open_store(str(folder)), "", "one")
    drafts: list[Record] = [attempt(1)]
    for epoch in (1, 2):
        drafts += [checkpoint(epoch, files=["state/a"]), committed(epoch)]
    for draft in drafts:
        writer.append(draft)
    return folder


def test_a_savepoint_is_there_once_its_manifest_is(tmp_path: Path) -> None:
    folder = tmp_path / "savepoint-job-4-ab"
    written = savepoint(folder)
    with pytest.raises(UserError, match="unfinished savepoint"):
        find(str(folder))
    assert write_savepoint(written, str(folder)) == str(folder)
    assert write_savepoint(written, str(folder)) == str(folder), "recovery may finish it again"
    found = find(str(folder))
    assert found.journal is None
    assert found.manifest.states[0].files[0].path == f"{folder}/state/a"
    assert damage(found.manifest) is None
    assert find(f"{folder}/manifest.json") == find(f"file://{folder}/").__class__(
        found.url, found.folder, found.manifest
    )


def test_a_moved_savepoint_is_whole(tmp_path: Path) -> None:
    write_savepoint(savepoint(tmp_path / "here"), str(tmp_path / "here"))
    shutil.move(tmp_path / "here", tmp_path / "there")
    found = find(str(tmp_path / "there"))
    assert damage(found.manifest) is None
    assert found.manifest.states[0].files[0].path == f"{tmp_path}/there/state/a"


def test_a_claimed_savepoint_goes_and_a_job_stays(tmp_path: Path, job: Path) -> None:
    folder = tmp_path / "savepoint-job-4-ab"
    write_savepoint(savepoint(folder), str(folder))
    (folder / "notes.txt").write_text("the user's own")
    delete_savepoint(f"{folder}/manifest.json")
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["notes.txt"]
    delete_savepoint(str(folder))  # a second time there is nothing to do
    delete_savepoint(str(job))
    delete_savepoint(find(str(job)).url)
    assert find(str(job)).manifest.epoch == 2


def test_a_claimed_savepoint_keeps_what_checkpoints_name(tmp_path: Path) -> None:
    folder = tmp_path / "savepoint-job-4-ab"
    write_savepoint(savepoint(folder), str(folder))
    own = find(str(folder)).manifest
    (folder / "state" / "unnamed").write_bytes(b"")
    other = savepoint(tmp_path / "other")
    for _ in range(2):
        release_savepoint(str(folder), [other, own])
        assert [path.name for path in folder.rglob("*") if path.is_file()] == ["a"]
    with pytest.raises(UserError, match="unfinished savepoint"):
        find(str(folder))
    release_savepoint(str(folder), [])
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_savepoint_whose_files_went_away_is_not_finished(tmp_path: Path) -> None:
    written = savepoint(tmp_path / "here")
    (tmp_path / "here" / "state" / "a").unlink()
    with pytest.raises(ExternalError, match="state/a is not there"):
        write_savepoint(written, str(tmp_path / "here"))
    assert not (tmp_path / "here" / "manifest.json").exists()


def test_a_savepoint_may_lie_in_any_store_that_can_be_read() -> None:
    url = "memory://savepoints/one"
    with pytest.raises(UserError, match="no savepoint or checkpoint"):
        find(url)
    write_savepoint(manifest(4).model_copy(update={"kind": "savepoint"}), url)
    assert find(url).manifest.epoch == 4


def test_a_job_folder_names_its_newest_checkpoint(job: Path) -> None:
    found = find(str(job))
    assert found.manifest.epoch == 2
    assert found.journal is not None
    assert found.url == checkpoint_url(str(job), found.journal.checkpoints[-1]) == f"{job}/journal/00000004.json"
    assert damage(found.manifest) is None
    assert find(str(job), 1).manifest.epoch == 1
    assert find(f"{job}/journal/00000002.json").manifest.epoch == 1
    with pytest.raises(UserError, match="has no checkpoint 7") as caught:
        find(str(job), 7)
    assert caught.value.remedy == "retained: 1, 2"


def test_what_is_no_checkpoint_is_refused_by_name(job: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a checkpoint's record, but `attempt`"):
        find(f"{job}/journal/00000001.json")
    with pytest.raises(UserError, match=r"00000009\.json is not there"):
        find(f"{job}/journal/00000009.json")
    with pytest.raises(UserError, match="no savepoint or checkpoint at"):
        find(str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="no savepoint at"):
        find(str(tmp_path / "nothing" / "manifest.json"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.unlink(), "state/a is missing"),
        (lambda file: file.write_bytes(b"dat"), "state/a has 3 bytes, 4 were written"),
        (lambda file: file.write_bytes(b"dafa"), "state/a is altered"),
    ],
)
def test_damaged_files_are_named(job: Path, change: object, message: str) -> None:
    assert callable(change)
    change(job / "state" / "a")
    found = damage(find(str(job)).manifest)
    assert found is not None
    assert message in found


def test_damaged_documents_are_named(job: Path) -> None:
    record = job / "journal" / "00000004.json"
    whole = record.read_text()
    record.write_text(whole[:-20])
    with pytest.raises(ExternalError, match=r"00000004\.json is no JSON"):
        find(str(job))
    record.write_text(whole.replace('"attempt":1', '"attempt":"x"'))
    with pytest.raises(ExternalError, match=r"00000004\.json is not a journal record .*attempt"):
        find(str(job))
    record.write_text(whole.replace('"number":4', '"number":5'))
    with pytest.raises(ExternalError, match=r"00000004\.json says that it is record 5"):
        find(str(job))
    record.write_text(whole.replace(f'"format":{FORMAT}', f'"format":{FORMAT + 1},"more":1'))
    with pytest.raises(UserError, match=rf"has format {FORMAT + 1}, written by headrace 1\.0"):
        find(str(job))


def test_a_manifest_of_a_version_to_come_is_refused(tmp_path: Path) -> None:
    write_savepoint(savepoint(tmp_path / "here"), str(tmp_path / "here"))
    path = tmp_path / "here" / "manifest.json"
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}'))
    with pytest.raises(UserError, match="this one reads up to"):
        find(str(tmp_path / "here"))
    path.write_text("{")
    with pytest.raises(ExternalError, match="no JSON"):
        find(str(tmp_path / "here"))
    path.write_text('{"format": 1}')
    with pytest.raises(ExternalError, match="is no manifest of this version"):
        find(str(tmp_path / "here"))
