"""A job's journal in a store: reads it, and appends records by the protocol of `journal.journal`. Decides nothing.

append:  put-if-absent at head + 1 ─> taken? read its record ─> list higher numbers ─> `PutResult`
"""

from __future__ import annotations

import json
from typing import assert_never

from pydantic import ValidationError

from headrace.checkpoint.journal.journal import (
    Journal,
    JournalCorruptError,
    JournalReplaced,
    Prunable,
    PutResult,
    Settled,
    Written,
)
from headrace.checkpoint.journal.records import RECORD, Record
from headrace.checkpoint.manifest import require_format
from headrace.checkpoint.paths import JOURNAL, joined, record_number, record_path
from headrace.checkpoint.stores.store import ObjectNotFoundError, ObjectStore
from headrace.core.errors import ExternalError

_LOADS_MAX = 5
"""How often a journal is read if other processes write or delete records during the read."""


class JournalStore:
    """One writer's access to one journal. Used by one thread at a time.

    `folder`: the job's, relative to the store (empty: the store is the job's folder); `writer`: this run's token.
    """

    def __init__(self, store: ObjectStore, folder: str, writer: str) -> None:
        self._store = store
        self._folder = f"{folder.strip('/')}/" if folder else ""
        self._writer = writer
        self._journal = Journal()
        self._replaced: JournalReplaced | None = None
        self._wrote = False

    @property
    def replaced(self) -> JournalReplaced | None:
        """Evidence that another writer has replaced this one; None until it is detected. Then this one never writes
        again."""
        return self._replaced

    @property
    def journal(self) -> Journal:
        """The journal as of the last read or append."""
        return self._journal

    def load(self) -> Journal:
        """Reads the whole journal. Raises ExternalError, and UserError for records of a newer version of headrace.

        A writer that has been replaced stays replaced: only a new JournalStore may continue. A writer that has appended
        a record is also replaced if this read finds a later record of another writer.
        """
        head = self._journal.head
        journal = self._load_settled()
        if self._wrote and self._replaced is None:
            foreign = (each for each in journal.records if each.number > head and each.writer != self._writer)
            self._replaced = next((JournalReplaced(each.number, each.writer) for each in foreign), None)
        return journal

    def _load_settled(self) -> Journal:
        for _ in range(_LOADS_MAX - 1):
            try:
                return self._load()
            except (JournalCorruptError, ObjectNotFoundError):
                continue  # the listing raced with a put or delete by another process: list again
        return self._load()

    def append(self, draft: Record) -> PutResult:
        """Puts the draft at head + 1. After JournalReplaced, every later call returns JournalReplaced.

        Raises ExternalError if the store fails. The record may have been written or not; the caller may append the same
        draft again.
        """
        if self._replaced is not None:
            return self._replaced
        put = self._journal.next(draft, self._writer)
        path = self._folder + record_path(put.number)
        existing: Record | None = None
        if not self._store.put_if_absent(path, RECORD.dump_json(put)):
            try:
                existing = self._read(path)
            except ObjectNotFoundError as error:
                # The number was taken, and the record is gone now. If another writer has continued, it has pruned the
                # record, and a higher number exists.
                if not self._higher(put.number):
                    raise ExternalError(
                        f"{self._store.url}/{path} could not be written and is not there", retry=True
                    ) from error
        # listed after the put: a higher number proves that another writer has continued
        return self._judged(self._journal.on_put(put, existing, self._higher(put.number)))

    def prune(self, retained: int) -> Prunable | None:
        """Deletes records and files of checkpoints beyond the `retained` newest, and returns them. None: another writer
        has continued, and nothing was deleted."""
        if self._replaced is not None or self._higher(self._journal.head):
            return None
        gone = self._journal.prunable(retained)
        # ascending, so that an interruption leaves a contiguous history; files go after the records that name them
        self._store.delete(self._folder + record_path(number) for number in gone.numbers)
        self._store.delete(self._folder + path for path in gone.files)
        self._journal = self._journal.pruned(gone)
        return gone

    def _judged(self, result: PutResult) -> PutResult:
        match result:
            case Written() | Settled():
                self._journal, self._wrote = result.journal, True
            case JournalReplaced():
                self._replaced = result
            case _:
                assert_never(result)
        return result

    def _load(self) -> Journal:
        self._journal = Journal.load([self._read(path) for path in self._paths()])
        return self._journal

    def _paths(self) -> list[str]:
        return [path for path in self._store.list(self._folder + JOURNAL) if record_number(path) is not None]

    def _higher(self, number: int) -> list[int]:
        numbers = (record_number(path) for path in self._paths())
        return [each for each in numbers if each is not None and each > number]

    def _read(self, path: str) -> Record:
        return parse_record(self._store.read(path), joined(self._store.url, path))


def parse_record(data: bytes, place: str) -> Record:
    """Parses a record. place: its path or URL, for errors; the number in it must be the record's.

    Raises UserError for a manifest of a newer format, ExternalError for other invalid data.
    """
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise ExternalError(
            f"{place} is no JSON: it was cut off or overwritten", remedy="restore that file, or start from a savepoint"
        ) from error
    manifest = fields.get("manifest") if isinstance(fields, dict) else None
    require_format(manifest if isinstance(manifest, dict) else {}, place)
    try:
        record = RECORD.validate_json(data)
    except ValidationError as error:
        raise ExternalError(
            f"{place} is not a journal record of this version of headrace: {_first(error)}",
            remedy="a newer headrace may have written it: use that version; else restore the file",
        ) from error
    if record.number != record_number(place):
        raise ExternalError(f"{place} says that it is record {record.number}", remedy="restore that file")
    return record


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    return f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
