"""Enumerators that know nothing of restores go on from known splits all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from headrace.connect.restored import restored
from headrace.connect.source import Split, SplitId
from headrace.core.errors import UserError


def split(partition: int, start: int = 0, stop: int | None = None) -> Split:
    return Split(SplitId("t", partition), start, stop)


@dataclass
class Plain:
    """Answers what it is told to; has no `restore`."""

    answers: list[list[Split]]
    discovery_interval_ms: int | None = 7
    closed: int = field(default=0)

    def discover(self) -> Sequence[Split]:
        return self.answers.pop(0)

    def close(self) -> None:
        self.closed += 1


def test_known_splits_win_and_new_ones_are_added() -> None:
    inner = Plain([[split(0, 50), split(1, 60)], [split(0, 70), split(1, 80), split(2, 90)]])
    enumerator = restored(inner, "flights", [split(0, 5, 9)])
    assert enumerator.discovery_interval_ms == 7
    assert enumerator.discover() == [split(0, 5, 9), split(1, 60)]
    assert enumerator.discover() == [split(0, 5, 9), split(1, 60), split(2, 90)]
    enumerator.close()
    assert inner.closed == 1


def test_a_stop_of_another_job_is_resolved_anew_once() -> None:
    inner = Plain([[split(0, 50, 100)], [split(0, 50, 200)]])
    enumerator = restored(inner, "flights", [split(0, 5, 9)], foreign=True)
    assert enumerator.discover() == [split(0, 5, 100)]
    assert enumerator.discover() == [split(0, 5, 100)]


def test_splits_of_another_job_that_are_not_there_are_refused() -> None:
    inner = Plain([[split(0)]])
    enumerator = restored(inner, "flights", [split(0), split(3), split(4)], foreign=True)
    with pytest.raises(UserError, match=r"source 'flights' is restored with positions of t\[3\], t\[4\]") as raised:
        enumerator.discover()
    assert raised.value.remedy


@dataclass
class Identifying(Plain):
    """Knows which topics are other ones now."""

    others: dict[str, str] = field(default_factory=dict)
    restored_with: Sequence[Split] | None = None

    def replaced(self, known: Sequence[Split]) -> Mapping[str, str]:
        return {split.id.topic: self.others[split.id.topic] for split in known if split.id.topic in self.others}

    def restore(self, splits: Sequence[Split], *, foreign: bool) -> None:
        self.restored_with = splits


def test_a_log_that_another_one_has_replaced_is_refused_with_the_option_that_accepts_it() -> None:
    inner = Identifying([], others={"t": "it was deleted and made anew"})
    with pytest.raises(UserError, match=r"source 'flights' has positions in another log .* made anew") as raised:
        restored(inner, "flights", [split(0, 5)], accepted=["other"])
    assert "--accept-new-topic t" in str(raised.value.remedy)
    assert inner.restored_with is None


def test_an_accepted_log_begins_as_a_new_one_and_the_others_go_on() -> None:
    other = Split(SplitId("u", 0), 7)
    inner = Identifying([[]], others={"t": "anew"})
    restored(inner, "flights", [split(0, 5), split(1, 6), other], accepted=["t"])
    assert inner.restored_with == [other]
    # none is left: the source begins with its own `start`
    alone = Identifying([[]], others={"t": "anew"})
    assert restored(alone, "flights", [split(0, 5)], accepted=["t"]) is alone
    assert alone.restored_with is None
