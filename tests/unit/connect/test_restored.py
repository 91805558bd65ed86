"""Enumerators that know nothing of restores go on from known splits all the same."""

from __future__ import annotations

from collections.abc import Sequence
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
