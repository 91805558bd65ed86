"""The simulation finds what is broken: one rule of leadership at a time is, and some seed must fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from headrace.coordinator.ledger.ledger import Ledger, PutResult, Settled, Written
from headrace.coordinator.ledger.records import Change, LedgerRecord
from headrace.coordinator.store import ledger_store
from headrace.coordinator.store.ledger_store import LedgerReplacedError, LedgerStore
from headrace.leadership.candidacy.candidacy import Candidacy, CandidacyEffect, CandidacyEvent, Replaced, TermGuard
from headrace.leadership.elector import Lost
from sim.finds import Breaks, each_of, require_found
from sim.leaders.run import play

SEEDS_MAX = 300


def _nobody_lists_what_is_above_a_put(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that was suspended puts at a number that was deleted, and believes that it leads."""
    on_put = Ledger.on_put

    def broken(self: Ledger, put: LedgerRecord, found: LedgerRecord | None, _higher: Iterable[int]) -> PutResult:
        return on_put(self, put, found, ())

    patch.setattr(Ledger, "on_put", broken)


def _who_takes_over_writes_no_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LedgerStore, "take_over", lambda self, _is_elected: self.load())


def _who_takes_over_does_not_ask_whether_it_is_still_elected(patch: pytest.MonkeyPatch) -> None:
    """A candidate that was suspended while it took over replaces the leader of today when it wakes."""
    take_over = LedgerStore.take_over
    patch.setattr(LedgerStore, "take_over", lambda self, _is_elected: take_over(self))


def _who_was_replaced_reads_again_and_goes_on(patch: pytest.MonkeyPatch) -> None:
    append = LedgerStore.append

    def broken(self: LedgerStore, changes: Sequence[Change]) -> Ledger:
        try:
            return append(self, changes)
        except LedgerReplacedError:
            self._replaced = None
            self.load()
            return append(self, changes)

    patch.setattr(LedgerStore, "append", broken)
    patch.setattr(LedgerStore, "require_own", lambda _self: None)


def _a_record_of_its_own_counts_as_the_one_that_it_puts(patch: pytest.MonkeyPatch) -> None:
    """The response of an earlier put was lost, and its changes were others."""
    on_put = Ledger.on_put

    def broken(self: Ledger, put: LedgerRecord, found: LedgerRecord | None, higher: Iterable[int]) -> PutResult:
        verdict = on_put(self, put, found, higher)
        return Written(self.with_record(put)) if isinstance(verdict, Settled) else verdict

    patch.setattr(Ledger, "on_put", broken)


def _a_record_of_another_is_a_mere_delay(patch: pytest.MonkeyPatch) -> None:
    """Whose number is taken puts at the next one."""
    on_put = Ledger.on_put

    def broken(self: Ledger, put: LedgerRecord, found: LedgerRecord | None, higher: Iterable[int]) -> PutResult:
        if found is not None and found.writer != put.writer:
            return Written(self.with_record(found))
        return on_put(self, put, found, higher)

    patch.setattr(Ledger, "on_put", broken)


def _a_snapshot_is_one_record_behind(patch: pytest.MonkeyPatch) -> None:
    path = ledger_store._snapshot_path
    patch.setattr(ledger_store, "_snapshot_path", lambda number: path(number + 1))


def _workers_obey_every_coordinator(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TermGuard, "admits", lambda _self, _cluster, _term: True)


def _who_was_replaced_does_not_give_up(patch: pytest.MonkeyPatch) -> None:
    on = Candidacy.on

    def broken(self: Candidacy, event: CandidacyEvent) -> CandidacyEffect | None:
        return None if isinstance(event, Replaced | Lost) else on(self, event)

    patch.setattr(Candidacy, "on", broken)


BREAKS: list[tuple[Breaks, int]] = [
    (_nobody_lists_what_is_above_a_put, 6_200),
    (_who_takes_over_writes_no_record, 0),
    (_who_takes_over_does_not_ask_whether_it_is_still_elected, 0),
    (_who_was_replaced_reads_again_and_goes_on, 0),
    (_a_record_of_its_own_counts_as_the_one_that_it_puts, 0),
    (_a_record_of_another_is_a_mere_delay, 0),
    (_a_snapshot_is_one_record_behind, 0),
    (_workers_obey_every_coordinator, 0),
    (_who_was_replaced_does_not_give_up, 0),
]


@each_of(BREAKS)
def test_a_broken_rule_is_found(breaks: Breaks, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch)
    require_found(play, first, SEEDS_MAX)
