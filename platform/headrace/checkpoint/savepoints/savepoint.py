"""Savepoints and retained checkpoints by path: finishes savepoints; finds, reads and checks the one that a user names.

    path from the user                                      what is read
    .../savepoint-<job>-<epoch>-<random>[/manifest.json]   its manifest.json
    .../<storage>/<job>                                    the newest complete checkpoint (or the epoch asked for)
    .../<storage>/<job>/journal/00000012.json              the checkpoint of that record

Manifests are returned `located`: every path in them is absolute, so a reader needs no folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from headrace.checkpoint.job_folder.journal_store import JournalStore, parse_record
from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.manifest import FilePart, Manifest, located, require_format
from headrace.checkpoint.paths import JOURNAL, MANIFEST, STATE, absolute, joined, parted, record_number, record_path
from headrace.checkpoint.stores.opening import open_folder, read_url
from headrace.checkpoint.stores.store import ObjectNotFoundError, ObjectStore
from headrace.core.errors import ExternalError, UserError

_ENCODING = "utf-8"


@dataclass(frozen=True, slots=True)
class Found:
    """A savepoint or checkpoint. `url`: of the manifest or record; `folder`: the base of its relative paths.

    journal   of the job whose checkpoint it is; None for a savepoint, which belongs to the user
    """

    url: str
    folder: str
    manifest: Manifest
    journal: Journal | None = None


def write_savepoint(manifest: Manifest, folder: str) -> str:
    """Writes the savepoint's manifest, the last of its files; returns the folder's URL. Idempotent.

    manifest: of kind `savepoint`, with paths relative to `folder`. Raises ExternalError, also if a file that it names
    is gone: then the savepoint was moved or deleted, and cannot be finished.
    """
    return finish_savepoint(manifest, open_folder(folder))


def finish_savepoint(manifest: Manifest, store: ObjectStore) -> str:
    """Does the same as `write_savepoint`. store: the savepoint's folder."""
    assert manifest.kind == "savepoint", "a checkpoint's manifest lives in the journal"
    there = set(store.list(""))
    if MANIFEST in there:
        return store.url
    if missing := sorted({part.path for part in _parts(manifest)} - there):
        raise ExternalError(
            f"savepoint {store.url} cannot be finished: {missing[0]} is not there",
            remedy="it was moved or deleted meanwhile: take another savepoint",
        )
    store.write(MANIFEST, manifest.model_dump_json(indent=2).encode(_ENCODING))
    return store.url


def delete_savepoint(path: str) -> None:
    """Deletes a savepoint by a path that `find` accepts, its manifest first. Does nothing if there is no savepoint, or
    if the path is a job's folder or record: its checkpoints are that job's history."""
    folder = savepoint_folder(path)
    if folder is not None and MANIFEST in open_folder(folder).list(""):
        release_savepoint(folder, ())


def savepoint_folder(path: str) -> str | None:
    """The folder of a savepoint, or of a job, by a path that `find` accepts; None if the path is a record's."""
    url = absolute(path.rstrip("/"))
    if record_number(url) is not None:
        return None
    return parted(url)[0] if url.endswith(f"/{MANIFEST}") else url


def release_savepoint(folder: str, by: Iterable[Manifest]) -> None:
    """Deletes the files of a savepoint's folder that none of these checkpoints names, its manifest first: from then on
    no other job begins with it."""
    store = open_folder(folder)
    named = {part.path for manifest in by for part in _parts(manifest)}
    files = [name for name in store.list(STATE) if joined(folder, name) not in named]
    store.delete([MANIFEST, *files])


def find(path: str, epoch: int | None = None) -> Found:
    """The savepoint or checkpoint at a path or URL.

    epoch   one of the job's retained checkpoints, if the path is a job's folder; None: the newest
    Raises UserError if there is none, or one of a newer format; ExternalError if it is damaged.
    """
    url = absolute(path.rstrip("/"))
    if url.endswith(f"/{MANIFEST}"):
        return _savepoint(parted(url)[0])
    if record_number(url) is not None:
        return _recorded(url)
    store = open_folder(url)
    there = store.list("")
    if MANIFEST in there:
        return _savepoint(url)
    if any(name.startswith(JOURNAL) for name in there):
        return _newest(store, epoch)
    if any(name.startswith(STATE) for name in there):
        raise UserError(
            f"{url} is an unfinished savepoint: it has no {MANIFEST}",
            remedy="the job's recovery finishes it if its epoch was complete; else take another savepoint",
        )
    raise UserError(
        f"there is no savepoint or checkpoint at {url}",
        remedy=f"name a savepoint's folder (it holds {MANIFEST}), a job's folder in checkpoint storage, "
        "or one of its journal's records",
    )


def damage(manifest: Manifest) -> str | None:
    """The first file of a located manifest that is missing, truncated or altered, as a message; None: all are intact.
    Reads every file once. Raises ExternalError if storage does not answer."""
    whole = {part.path: (part, handle) for handle in manifest.states for part in handle.files}
    for part, handle in whole.values():
        try:
            checked_read(part)
        except CorruptFileError as error:
            return f"{error.message} (state {handle.state!r} of node {handle.node!r})"
    return None


class CorruptFileError(ExternalError):
    """A file of a checkpoint is missing, truncated or altered."""


def checked_read(part: FilePart) -> bytes:
    """The whole file of a located part. Raises CorruptFileError."""
    # imported here: it loads polars and pyarrow, which most callers of this module do not need
    from headrace.state.parquet import checksum, damaged_row_group

    remedy = "put that file back, or restore from another checkpoint or savepoint"
    try:
        data = read_url(part.path)
    except ObjectNotFoundError as error:
        raise CorruptFileError(f"{part.path} is missing", remedy=remedy) from error
    if len(data) != part.bytes:
        raise CorruptFileError(f"{part.path} has {len(data)} bytes, {part.bytes} were written", remedy=remedy)
    if checksum(data) != part.checksum:
        where = damaged_row_group(data)
        text = "" if where is None else f" in {where}"
        raise CorruptFileError(f"{part.path} is altered{text}: its checksum is not {part.checksum}", remedy=remedy)
    return data


def _parts(manifest: Manifest) -> list[FilePart]:
    return [part for handle in manifest.states for part in handle.files]


def _savepoint(folder: str) -> Found:
    url = joined(folder, MANIFEST)
    try:
        data = read_url(url)
    except ObjectNotFoundError as error:
        raise UserError(f"there is no savepoint at {folder}", remedy=f"name a folder that holds {MANIFEST}") from error
    return Found(url, folder, located(parse_manifest(data, url), folder))


def parse_manifest(data: bytes, place: str) -> Manifest:
    """Parses a savepoint's manifest. place: its URL, for errors. Raises UserError for a newer format, ExternalError for
    other invalid data."""
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise ExternalError(
            f"{place} is no JSON: it was cut off or overwritten", remedy="restore from another savepoint"
        ) from error
    require_format(fields if isinstance(fields, dict) else {}, place)
    try:
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise ExternalError(
            f"{place} is no manifest of this version of headrace: {where}: {problem['msg']}",
            remedy="was it edited? restore from another savepoint",
        ) from error


def _recorded(url: str) -> Found:
    folder = parted(parted(url)[0])[0]
    try:
        record = parse_record(read_url(url), url)
    except ObjectNotFoundError as error:
        raise UserError(f"{url} is not there", remedy="that checkpoint is no longer retained: name another") from error
    if not isinstance(record, CheckpointRecord):
        raise UserError(
            f"{url} is not a checkpoint's record, but `{record.kind}`",
            remedy=f"name {folder} for the newest checkpoint",
        )
    return Found(url, folder, located(record.manifest, folder), JournalStore(open_folder(folder), "", "").load())


def _newest(store: ObjectStore, epoch: int | None) -> Found:
    journal = JournalStore(store, "", "").load()
    fitting = [each for each in journal.checkpoints if epoch in {None, each.manifest.epoch}]
    if not fitting:
        retained = ", ".join(str(each.manifest.epoch) for each in journal.checkpoints) or "none"
        what = "no complete checkpoint" if epoch is None else f"no checkpoint {epoch}"
        raise UserError(f"{store.url} has {what}", remedy=f"retained: {retained}")
    record = fitting[-1]
    return Found(checkpoint_url(store.url, record), store.url, located(record.manifest, store.url), journal)


def checkpoint_url(job_folder: str, record: CheckpointRecord) -> str:
    """The path by which users name a retained checkpoint: the URL of its record."""
    return joined(job_folder, record_path(record.number))
