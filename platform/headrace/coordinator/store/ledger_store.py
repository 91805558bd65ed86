"""A cluster's ledger in an object store: reads it, appends records, writes snapshots. Decides nothing (`ledger`).

    ledger/00000041.json          records, by number
    ledger/snapshots/00000040.json

append:   put-if-absent at head + 1 ─> taken? read its record ─> list higher numbers ─> `PutResult`
compact:  put-if-absent of the snapshot at the head ─> delete earlier snapshots but one, and the records below that one
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from headrace import __version__
from headrace.checkpoint.stores.store import ObjectNotFoundError, ObjectStore
from headrace.coordinator.ledger.ledger import Ledger, LedgerCorruptError, LedgerReplaced, Settled, Written
from headrace.coordinator.ledger.records import FORMAT, Change, LedgerRecord, Snapshot
from headrace.core.clock import Clock
from headrace.core.errors import ExternalError, UserError

LEDGER = "ledger/"
RECORDS_MAX = 50
"""Records after a snapshot until the next one is written."""
_RECORD = re.compile(r"ledger/(\d{8,})\.json\Z")
_SNAPSHOT = re.compile(r"ledger/snapshots/(\d{8,})\.json\Z")
_LOADS_MAX = 5
"""How often a ledger is read if other processes write or delete objects during the read."""
_SETTLED_MAX = 3
"""How many earlier puts may turn out to have succeeded in one append: at most one is without an answer."""
M = TypeVar("M", bound=BaseModel)


class _Listing(NamedTuple):
    """Numbers of the objects of a ledger, ascending."""

    records: list[int]
    snapshots: list[int]


class LedgerReplacedError(ExternalError):
    """Another coordinator has taken the ledger over: this one writes nothing any more."""


class LedgerFormatError(UserError):
    """A later version of headrace has written to the ledger, in a format that this version does not know."""


class LedgerStore:
    """One coordinator's access to its cluster's ledger. Used by one thread at a time. writer: this run's token."""

    def __init__(self, store: ObjectStore, writer: str, clock: Clock) -> None:
        self._store = store
        self._writer = writer
        self._clock = clock
        self._ledger = Ledger()
        self._replaced: LedgerReplaced | None = None

    @property
    def ledger(self) -> Ledger:
        """The ledger as of the last read or append."""
        return self._ledger

    def load(self) -> Ledger:
        """Reads the ledger, and replaces nobody. Raises ExternalError, LedgerFormatError."""
        self._ledger = self._load_settled()
        return self._ledger

    def take_over(self, is_elected: Callable[[], bool] = lambda: True) -> Ledger:
        """Reads the ledger, and puts this writer's first record: every other writer has been replaced when it returns.

        is_elected: whether this coordinator is still the one that may lead. Raises ExternalError; LedgerReplacedError
        if it is not, or if others are faster again and again; LedgerFormatError, without having written anything, if a
        later version's coordinator has led.
        """
        for _ in range(_LOADS_MAX):
            put = self.load().next((), self._writer, self._clock.now_ms(), version=__version__)
            # Asked between read and put: a record of a coordinator that was elected later is in what was read, so that
            # this one is elected no more, or it takes the number of the put. A candidate that is suspended at any
            # moment of this replaces nobody when it wakes.
            if not is_elected():
                raise LedgerReplacedError("another coordinator has been elected meanwhile")
            match self._put(put):
                case Written(ledger) | Settled(ledger):
                    self._ledger = ledger
                    return ledger
                case LedgerReplaced():
                    continue  # the coordinator before this one has just written a record, or another one starts, too
        raise LedgerReplacedError(f"other coordinators write to the ledger at {self._store.url}", retry=True)

    def append(self, changes: Sequence[Change]) -> Ledger:
        """Writes the changes as one record, and returns the ledger with them.

        Raises ExternalError if the store fails: the record may have been written or not, and the caller may append the
        same changes again. Raises LedgerReplacedError once another coordinator has taken over, and from then on.
        """
        for _ in range(_SETTLED_MAX):
            self._require_own()
            put = self._ledger.next(changes, self._writer, self._clock.now_ms(), version=__version__)
            match result := self._put(put):
                case Written(ledger):
                    self._ledger = ledger
                    return ledger
                case Settled(ledger):
                    self._ledger = ledger
                case LedgerReplaced():
                    self._replaced = result
        self._require_own()
        raise ExternalError(f"the ledger at {self._store.url} takes no record", retry=True)

    def require_own(self) -> None:
        """Lists what lies above the head. Raises LedgerReplacedError if another coordinator has taken over."""
        self._require_own()
        if higher := self._higher(self._ledger.head):
            self._replaced = LedgerReplaced(max(higher))
            self._require_own()

    def compact(self) -> None:
        """Writes a snapshot and deletes what it makes superfluous, if there are many records. The last snapshot but one
        stays, with the records after it. Raises ExternalError."""
        ledger = self._ledger
        if ledger.head - ledger.snapshot < RECORDS_MAX:
            return
        self.require_own()
        snapshot = ledger.as_snapshot(version=__version__)
        self._store.put_if_absent(_snapshot_path(ledger.head), snapshot.model_dump_json().encode())
        kept, found = ledger.snapshot, self._list()
        # ascending, so that an interruption leaves records without a gap
        self._store.delete([_record_path(number) for number in found.records if number <= kept])
        self._store.delete([_snapshot_path(number) for number in found.snapshots if number < kept])
        self._ledger = replace(ledger, snapshot=ledger.head)

    def _put(self, put: LedgerRecord) -> Written | Settled | LedgerReplaced:
        path = _record_path(put.number)
        found: LedgerRecord | None = None
        if not self._store.put_if_absent(path, put.model_dump_json().encode()):
            try:
                found = self._read(path, LedgerRecord)
            except ObjectNotFoundError as error:
                # taken, and gone now: another coordinator has compacted the ledger, so a higher number exists
                if not self._higher(put.number):
                    raise ExternalError(
                        f"{self._store.url}/{path} could not be written and is not there", retry=True
                    ) from error
            except LedgerFormatError:
                return LedgerReplaced(put.number)  # a coordinator of a later version, so it is not this one's record
        # listed after the put: a higher number proves that another coordinator has continued
        return self._ledger.on_put(put, found, self._higher(put.number))

    def _require_own(self) -> None:
        if self._replaced is not None:
            raise LedgerReplacedError(
                f"record {self._replaced.number} of the ledger at {self._store.url} is another coordinator's: this one "
                f"has been replaced"
            )

    def _load_settled(self) -> Ledger:
        for _ in range(_LOADS_MAX - 1):
            try:
                return self._load()
            except (LedgerCorruptError, ObjectNotFoundError):
                continue  # the listing raced with a put or a compaction by another process: list again
        return self._load()

    def _load(self) -> Ledger:
        found = self._list()
        newest = max(found.snapshots, default=None)
        snapshot = None if newest is None else self._read(_snapshot_path(newest), Snapshot)
        after = 0 if snapshot is None else snapshot.number
        numbers = [number for number in found.records if number > after]
        return Ledger.load(snapshot, [self._read(_record_path(number), LedgerRecord) for number in numbers])

    def _list(self) -> _Listing:
        # one listing for both: objects of snapshots are below the prefix of the records
        paths = self._store.list(LEDGER)
        return _Listing(_numbers(_RECORD, paths), _numbers(_SNAPSHOT, paths))

    def _higher(self, number: int) -> list[int]:
        found = self._list()
        # a snapshot above is proof, too: the records that it contains may be deleted
        return [each for each in (*found.records, *found.snapshots) if each > number]

    def _read(self, path: str, kind: type[M]) -> M:
        data = self._store.read(path)
        _require_known_format(data, f"{self._store.url}/{path}")
        try:
            return kind.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "its beginning"
            raise ExternalError(
                f"{self._store.url}/{path} is no record of this version of headrace: {first['msg']} at {place}",
                remedy="a newer headrace may have written it: use that version; else restore the file",
            ) from error


def _require_known_format(data: bytes, place: str) -> None:
    try:
        fields = json.loads(data)
    except ValueError:
        return  # reported as what it is not: a record
    found = fields.get("format", FORMAT) if isinstance(fields, dict) else FORMAT
    if isinstance(found, int) and found > FORMAT:
        raise LedgerFormatError(
            f"{place} has format {found}, written by headrace {fields.get('version', '?')}: this version reads up to "
            f"{FORMAT}, and does not lead",
            remedy="run that version of headrace, or a later one, or restore a back-up from before the upgrade",
        )


def _numbers(pattern: re.Pattern[str], paths: Sequence[str]) -> list[int]:
    return sorted(int(match[1]) for path in paths if (match := pattern.search(path)))


def _record_path(number: int) -> str:
    return f"{LEDGER}{number:08d}.json"


def _snapshot_path(number: int) -> str:
    return f"{LEDGER}snapshots/{number:08d}.json"
