"""The ledger in a store: one of many writers leads, no acknowledged change is lost, and compaction keeps everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest

from headrace.checkpoint.stores.file import FileStore
from headrace.checkpoint.stores.store import Data
from headrace.coordinator.ledger.ledger import LedgerCorruptError
from headrace.coordinator.ledger.records import FORMAT, Discarded, Submitted
from headrace.coordinator.store import ledger_store
from headrace.coordinator.store.ledger_store import LedgerFormatError, LedgerReplacedError, LedgerStore
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError


def opened(folder: Path, writer: str = "w") -> LedgerStore:
    return LedgerStore(FileStore(str(folder)), writer, SystemClock())


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.json"))


def job(name: str) -> Submitted:
    return Submitted(job=name, sealed="x")


def test_who_takes_over_has_replaced_the_one_before(tmp_path: Path) -> None:
    first, second = opened(tmp_path, "first"), opened(tmp_path, "second")
    first.take_over()
    first.append([job("a")])
    assert set(second.take_over().jobs) == {"a"}
    with pytest.raises(LedgerReplacedError, match=r"record 3 of the ledger .* is another coordinator's"):
        first.append([job("b")])
    with pytest.raises(LedgerReplacedError):
        first.require_own()
    second.append([job("c")])
    assert set(opened(tmp_path, "third").take_over().jobs) == {"a", "c"}


def test_who_was_replaced_notices_without_a_write(tmp_path: Path) -> None:
    first = opened(tmp_path, "first")
    first.take_over()
    first.require_own()
    opened(tmp_path, "second").take_over()
    with pytest.raises(LedgerReplacedError):
        first.require_own()


class Overtaken(FileStore):
    """A candidate is suspended before its first put, and wakes after `meanwhile`."""

    def __init__(self, url: str, meanwhile: Callable[[], object]) -> None:
        super().__init__(url)
        self.meanwhile: list[Callable[[], object]] = [meanwhile]

    def put_if_absent(self, path: str, data: Data) -> bool:
        while self.meanwhile:
            self.meanwhile.pop()()
        return super().put_if_absent(path, data)


def test_a_candidate_that_is_elected_no_more_replaces_nobody(tmp_path: Path) -> None:
    """It was suspended while it took the ledger over; another one has been elected, and leads."""
    leader, elected = opened(tmp_path, "leader"), [True]

    def replaced() -> None:
        elected[:] = [False]
        leader.take_over()

    suspended = LedgerStore(Overtaken(str(tmp_path), replaced), "suspended", SystemClock())
    with pytest.raises(LedgerReplacedError, match="another coordinator has been elected"):
        suspended.take_over(lambda: elected[0])
    # nothing of it has any effect
    assert set(leader.append([job("a")]).jobs) == {"a"}
    leader.require_own()
    assert suspended.take_over(lambda: True).jobs.keys() == {"a"}


class Unsure(FileStore):
    """Puts whose response is lost, or that are not done, now and then."""

    def __init__(self, url: str, chance: Random) -> None:
        super().__init__(url)
        self.chance = chance

    def put_if_absent(self, path: str, data: Data) -> bool:
        """Raises before it is done, or after that."""
        fate = self.chance.random()
        if fate < 0.2:
            raise ExternalError("no connection", retry=True)
        done = super().put_if_absent(path, data)
        if fate < 0.4:
            raise ExternalError("no response", retry=True)
        return done

    def delete(self, paths: Iterable[str]) -> None:
        """Is interrupted."""
        some = list(paths)
        super().delete(some[: self.chance.randint(0, len(some))])


@pytest.mark.parametrize("seed", range(40))
def test_what_was_acknowledged_is_there_whatever_fails(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coordinators that replace each other over a store that fails, against a list of what was acknowledged."""
    monkeypatch.setattr(ledger_store, "RECORDS_MAX", 5)
    chance = Random(seed)
    writers = [LedgerStore(Unsure(str(tmp_path), chance), f"w{number}", SystemClock()) for number in range(3)]
    known: set[str] = set()
    doubtful: set[str] = set()
    leaders: set[int] = set()
    for number in range(120):
        index = chance.randrange(len(writers))
        writer = writers[index]
        try:
            if index not in leaders or chance.random() < 0.05:
                writers[index] = writer = LedgerStore(Unsure(str(tmp_path), chance), f"w{number}", SystemClock())
                writer.take_over()
                leaders.add(index)
            elif known and chance.random() < 0.3:
                gone = chance.choice(sorted(known))
                known.discard(gone)
                doubtful.add(gone)
                writer.append([Discarded(job=gone)])
                doubtful.discard(gone)
            else:
                doubtful.add(f"j{number}")
                writer.append([job(f"j{number}")])
                doubtful.discard(f"j{number}")
                known.add(f"j{number}")
                writer.compact()
        except LedgerReplacedError:
            leaders.discard(index)
        except ExternalError:
            continue
    found = set(opened(tmp_path, "last").take_over().jobs)
    assert known <= found <= known | doubtful


def test_a_snapshot_replaces_records_and_the_one_before_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_store, "RECORDS_MAX", 3)
    ledger = opened(tmp_path)
    ledger.take_over()
    for number in range(8):
        ledger.append([job(f"j{number}")])
        ledger.compact()
    assert names(tmp_path) == [
        "ledger/00000007.json",
        "ledger/00000008.json",
        "ledger/00000009.json",
        "ledger/snapshots/00000006.json",
        "ledger/snapshots/00000009.json",
    ]
    assert len(opened(tmp_path, "other").take_over().jobs) == 8


def test_a_record_below_a_snapshot_convinces_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that was suspended puts its record at a number that is free again."""
    monkeypatch.setattr(ledger_store, "RECORDS_MAX", 2)
    suspended = opened(tmp_path, "suspended")
    suspended.take_over()
    leader = opened(tmp_path, "leader")
    leader.take_over()
    for number in range(9):
        leader.append([job(f"j{number}")])
        leader.compact()
    assert "ledger/00000002.json" not in names(tmp_path)
    with pytest.raises(LedgerReplacedError):
        suspended.append([Discarded(job="j0")])
    assert "ledger/00000002.json" in names(tmp_path)
    assert "j0" in opened(tmp_path, "next").take_over().jobs


def test_a_gap_is_an_error_that_names_the_record(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.take_over()
    ledger.append([job("a")])
    ledger.append([job("b")])
    (tmp_path / "ledger" / "00000002.json").unlink()
    with pytest.raises(LedgerCorruptError, match="no record 2") as refused:
        opened(tmp_path, "next").take_over()
    assert refused.value.remedy == "restore the missing file of the ledger's folder"


@pytest.mark.parametrize("text", ["", "{}", '{"number": 1, "writer": "w", "at_ms": 1, "changes": [{"kind": "new"}]}'])
def test_a_record_that_cannot_be_read_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "00000001.json").write_text(text)
    with pytest.raises(ExternalError, match=r"ledger/00000001\.json is no record of this version"):
        opened(tmp_path).take_over()


@pytest.mark.parametrize("more", [{}, {"changes": [{"kind": "new"}]}], ids=["known", "unknown"])
def test_a_record_of_a_later_format_is_refused(more: dict[str, object], tmp_path: Path) -> None:
    """Whether its content could be read or not; nothing is written."""
    opened(tmp_path).take_over()
    later = {"format": FORMAT + 1, "version": "9.9.9", "number": 2, "writer": "w", "at_ms": 1, **more}
    (tmp_path / "ledger" / "00000002.json").write_text(json.dumps(later))
    with pytest.raises(LedgerFormatError, match=r"00000002\.json has format 2, written by headrace 9\.9\.9"):
        opened(tmp_path, "earlier").take_over()
    assert names(tmp_path) == ["ledger/00000001.json", "ledger/00000002.json"]


def test_a_leader_that_one_of_a_later_format_replaces_is_replaced(tmp_path: Path) -> None:
    leader = opened(tmp_path)
    leader.take_over()
    later = {"format": FORMAT + 1, "version": "9.9.9", "number": 2, "writer": "w", "at_ms": 1}
    (tmp_path / "ledger" / "00000002.json").write_text(json.dumps(later))
    with pytest.raises(LedgerReplacedError):
        leader.append([job("a")])


def test_a_record_without_a_format_is_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "00000001.json").write_text('{"number": 1, "writer": "w", "at_ms": 1, "changes": []}')
    assert opened(tmp_path).take_over().head == 2


def test_a_leader_that_writes_all_the_time_is_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(tmp_path, "first")
    first.take_over()
    put = FileStore.put_if_absent
    between = iter(range(2))

    def overtaken(store: FileStore, path: str, data: Data) -> bool:
        if b'"second"' in bytes(data) and next(between, None) is not None:
            first.append([job("a")])
        return put(store, path, data)

    monkeypatch.setattr(FileStore, "put_if_absent", overtaken)
    assert set(opened(tmp_path, "second").take_over().jobs) == {"a"}
    with pytest.raises(LedgerReplacedError):
        first.append([job("b")])
