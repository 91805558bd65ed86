"""A coordinator's candidacy: it leads once, holds in doubt, and gives up once and for all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.leadership.candidacy.candidacy import (
    Candidacy,
    CandidacyEvent,
    GiveUp,
    Hold,
    Lead,
    Replaced,
    Resume,
    Standing,
    StorageLost,
    WorkersLost,
)
from headrace.leadership.elector import Elected, InDoubt, Lost

EVENTS: st.SearchStrategy[CandidacyEvent] = st.sampled_from(
    [Elected(), InDoubt("cut"), Lost("gone"), Replaced("record 7"), StorageLost("no disk"), WorkersLost("cut")]
)


def effects(*events: CandidacyEvent, has_standbys: bool = True) -> list[object]:
    candidacy = Candidacy(has_standbys=has_standbys)
    return [effect for event in events if (effect := candidacy.on(event)) is not None]


def test_doubt_suspends_what_it_accepts_and_a_loss_ends_it() -> None:
    assert effects(InDoubt("cut"), Elected(), Elected()) == [Lead()]
    assert effects(Elected(), InDoubt("cut"), InDoubt("cut"), Elected()) == [Lead(), Hold("cut"), Resume()]
    assert effects(Elected(), InDoubt("cut"), Lost("gone"), Elected()) == [Lead(), Hold("cut"), GiveUp("gone")]
    assert effects(Elected(), Replaced("record 7"), Lost("gone")) == [Lead(), GiveUp("record 7")]
    assert effects(Lost("gone"), Elected()) == [GiveUp("gone")]


def test_without_standbys_nobody_else_could_reach_storage_or_workers() -> None:
    assert effects(Elected(), StorageLost("no disk")) == [Lead(), GiveUp("no disk")]
    assert effects(Elected(), WorkersLost("cut")) == [Lead(), GiveUp("cut")]
    alone = effects(Elected(), StorageLost("no disk"), WorkersLost("cut"), Replaced("r"), has_standbys=False)
    assert alone == [Lead(), GiveUp("r")]


@given(st.lists(EVENTS, max_size=12))
def test_it_takes_over_at_most_once_and_does_nothing_after_it_gave_up(events: list[CandidacyEvent]) -> None:
    candidacy = Candidacy(has_standbys=True)
    seen: list[object] = []
    for event in events:
        before = candidacy.standing
        effect = candidacy.on(event)
        if effect is None:
            continue
        assert before is not Standing.OVER
        seen.append(effect)
    assert seen.count(Lead()) <= 1
    assert sum(isinstance(each, GiveUp) for each in seen) <= 1
    # what it holds it resumes before it holds again
    held = [each for each in seen if isinstance(each, Hold | Resume)]
    assert all(isinstance(each, Hold) == (place % 2 == 0) for place, each in enumerate(held))
