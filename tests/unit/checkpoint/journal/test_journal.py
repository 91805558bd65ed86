"""The journal as a history: what is newest, what a put means, what may be deleted."""

from __future__ import annotations

import pytest

from headrace.checkpoint.journal.journal import (
    Journal,
    JournalCorruptError,
    JournalReplaced,
    Prunable,
    Settled,
    Written,
)
from headrace.checkpoint.journal.records import FinishedRecord, Record, StoppingRecord
from headrace.checkpoint.manifest import SplitDocument
from support.storage.checkpoints import attempt, checkpoint, committed, history

RUN: list[Record] = [attempt(1), checkpoint(1), committed(1), checkpoint(2), committed(2), checkpoint(3), committed(3)]


def test_an_empty_journal_begins_at_one() -> None:
    journal = Journal.load([])
    assert (journal.head, journal.attempt, journal.epoch, journal.checkpoints) == (0, 0, 0, ())
    first = journal.next(attempt(1), "one")
    assert (first.number, first.writer, first.after) == (1, "one", "")


def test_it_is_read_in_any_order() -> None:
    journal = history(*RUN)
    assert Journal.load(reversed(journal.records)) == journal
    assert (journal.head, journal.attempt, journal.epoch) == (7, 1, 3)
    assert [each.manifest.epoch for each in journal.checkpoints] == [1, 2, 3]
    assert journal.uncommitted is None


def test_the_newest_checkpoint_is_uncommitted_until_a_record_says_otherwise() -> None:
    decided = history(*RUN, checkpoint(4))
    assert decided.uncommitted is not None
    assert decided.uncommitted.manifest.epoch == 4
    assert history(*RUN, checkpoint(4), committed(4)).uncommitted is None
    assert history(*RUN, checkpoint(4), attempt(2, 4)).uncommitted is not None, "an attempt commits nothing by itself"


def test_an_attempt_gives_up_checkpoints_after_the_one_it_restored() -> None:
    journal = history(*RUN, attempt(2, 2))
    assert [each.manifest.epoch for each in journal.checkpoints] == [1, 2]
    assert journal.epoch == 3
    assert history(*RUN, attempt(2, None)).checkpoints == ()


def test_a_put_that_was_written_stands() -> None:
    journal = history(*RUN)
    put = journal.next(committed(3), "one")
    verdict = journal.on_put(put, None, [])
    assert isinstance(verdict, Written)
    assert verdict.journal.head == put.number == 8


def test_a_number_that_another_writer_has_means_replaced() -> None:
    journal = history(*RUN)
    found = journal.next(attempt(2, 3), "two")
    assert journal.on_put(journal.next(committed(3), "one"), found, []) == JournalReplaced(8, "two")


def test_a_higher_number_means_replaced_even_after_a_put_that_was_written() -> None:
    journal = history(*RUN)
    assert journal.on_put(journal.next(committed(3), "one"), None, [90, 91]) == JournalReplaced(91)


def test_a_put_that_had_succeeded_after_all_stands() -> None:
    journal = history(*RUN)
    earlier = journal.next(committed(3), "one")
    again = journal.next(committed(3).model_copy(update={"at_ms": 9}), "one")
    verdict = journal.on_put(again, earlier, [])
    assert isinstance(verdict, Written)
    assert verdict.record == earlier


def test_another_own_record_at_that_number_is_told() -> None:
    journal = history(*RUN)
    earlier = journal.next(checkpoint(4), "one")
    verdict = journal.on_put(journal.next(attempt(2, 3), "one"), earlier, [])
    assert isinstance(verdict, Settled)
    assert verdict.record == earlier
    assert verdict.journal.epoch == 4


def test_a_hole_without_a_checkpoint_above_it_is_damage() -> None:
    records = history(*RUN, attempt(2, 3)).records
    with pytest.raises(JournalCorruptError, match="no record 7"):
        Journal.load([*records[:6], records[7]])


def test_pruning_keeps_the_retained_checkpoints_and_the_newest_attempt() -> None:
    journal = history(*RUN)
    gone = journal.prunable(1)
    assert gone.numbers == (2, 3, 4, 5)
    left = journal.pruned(gone)
    assert [each.number for each in left.records] == [6, 7]
    assert left.kept == journal.records[0]
    assert (left.head, left.attempt, left.epoch) == (7, 1, 3)
    kept = [each for each in journal.records if each.number not in gone.numbers]
    assert Journal.load(kept) == left
    assert left.prunable(1) == Prunable()


def test_an_attempt_that_is_not_the_newest_any_more_goes() -> None:
    journal = history(*RUN)
    left = journal.pruned(journal.prunable(1))
    for draft in (attempt(2, 3), checkpoint(4, 2), committed(4)):
        verdict = left.on_put(left.next(draft, "two"), None, [])
        assert isinstance(verdict, Written)
        left = verdict.journal
    assert 1 in left.prunable(1).numbers
    assert left.newest_attempt is not None
    assert left.newest_attempt.attempt == 2


def test_what_is_decided_but_not_committed_keeps_the_checkpoint_before_it() -> None:
    journal = history(*RUN, checkpoint(4))
    assert max(journal.prunable(1).numbers) < 6


def test_files_go_when_no_retained_checkpoint_names_them() -> None:
    journal = history(
        attempt(1),
        checkpoint(1, files=["state/a", "state/b", "/somewhere/else"]),
        committed(1),
        checkpoint(2, files=["state/b", "state/c"]),
        committed(2),
    )
    assert journal.prunable(2).files == ()
    assert journal.prunable(1).files == ("state/a",)


def test_nothing_goes_while_a_stop_is_under_way() -> None:
    stopping = StoppingRecord(savepoint="/savepoints/one", at_ms=0)
    assert history(*RUN, stopping).prunable(1) == Prunable()
    ended = history(*RUN, stopping, FinishedRecord(state="FINISHED", at_ms=0))
    assert ended.prunable(1) != Prunable()


@pytest.mark.parametrize("late", [StoppingRecord(at_ms=5), attempt(2, 1, at_ms=5), checkpoint(9)])
def test_a_late_record_of_a_replaced_writer_is_no_history(late: StoppingRecord) -> None:
    journal = history(*RUN)
    left = journal.pruned(journal.prunable(1))
    for number in (3, 5):
        stray = late.model_copy(update={"number": number, "writer": "ghost", "after": "one@0"})
        loaded = Journal.load([*left.records, left.newest_attempt or left.records[0], stray])
        assert loaded.records == left.records
        assert loaded.stopping is None
        assert loaded.kept == left.kept
        assert number in loaded.prunable(1).numbers


def test_a_stop_lasts_until_the_end() -> None:
    stopping = StoppingRecord(savepoint="/savepoints/one", at_ms=0)
    journal = history(*RUN, stopping, attempt(2, 3))
    assert journal.stopping is not None
    assert journal.stopped is None
    other = checkpoint(4, 2).model_copy(update={"savepoint": "/savepoints/two"})
    journal = history(*RUN, stopping, attempt(2, 3), other)
    assert journal.stopped is None
    done = checkpoint(4, 2).model_copy(update={"savepoint": "/savepoints/one"})
    journal = history(*RUN, stopping, attempt(2, 3), done)
    assert journal.stopped is not None
    assert journal.stopped.manifest.epoch == 4
    ended = history(*RUN, stopping, done, committed(4), FinishedRecord(state="FINISHED", at_ms=0))
    assert ended.stopping is None
    assert ended.finished is not None
    assert history(*RUN, FinishedRecord(state="FINISHED", at_ms=0), attempt(2, 3)).finished is None


def test_an_epoch_that_was_in_flight_when_the_stop_was_asked_for_is_not_the_stop_s() -> None:
    drained = checkpoint(5)
    drained = drained.model_copy(update={"manifest": drained.manifest.model_copy(update={"drained": True})})
    in_flight = [*RUN, StoppingRecord(drain=True, at_ms=0), checkpoint(4), committed(4)]
    assert history(*in_flight, drained).stopped == history(*in_flight, drained).checkpoints[-1]


def test_splits_are_those_that_the_newest_record_knows() -> None:
    splits = {"flights": (SplitDocument(topic="flights", partition=0, start=0),)}
    begun = attempt(1).model_copy(update={"splits": splits})
    assert history(begun).splits == splits
    assert history(begun, FinishedRecord(state="FAILED", at_ms=0)).splits == splits
    assert Journal().splits == {}


def test_names_of_an_attempt_whose_record_has_gone_are_told_by_its_checkpoints() -> None:
    first, second = {"delays": ("delays-1", "delays-1+")}, {"delays": ("delays-2",)}
    newest = checkpoint(2)
    journal = history(
        attempt(1).model_copy(update={"transactions": {"delays": ("delays-1",)}}),
        checkpoint(1),
        committed(1),
        newest.model_copy(update={"manifest": newest.manifest.model_copy(update={"transactions": first})}),
        committed(2),
    )
    left = journal.pruned(journal.prunable(1))
    following = left.next(attempt(2, 2).model_copy(update={"transactions": second}), "two")
    verdict = left.on_put(following, None, [])
    assert isinstance(verdict, Written)
    # attempt 2 may have died before it fenced the names of attempt 1
    assert verdict.journal.transactions == {"delays": ("delays-1", "delays-1+", "delays-2")}
