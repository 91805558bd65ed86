"""The page on the states of a job is the one that the table gives."""

from __future__ import annotations

from headrace.coordinator.job.document import page
from headrace.coordinator.job.job_state import TERMINAL, TRANSITIONS, JobState
from support.repository import ROOT


def test_the_page_is_up_to_date() -> None:
    remedy = "run `python -m headrace.coordinator.job.document > docs/job-states.md`"
    assert (ROOT / "docs" / "job-states.md").read_text() == page(), remedy


def test_every_state_has_its_place_in_the_table() -> None:
    assert set(TRANSITIONS) == set(JobState)
    assert {state for state, following in TRANSITIONS.items() if not following} == TERMINAL


def test_every_state_can_be_reached_and_left_for_an_end() -> None:
    reached = {JobState.CREATED}
    while more := {name for state in reached for name in TRANSITIONS[state]} - reached:
        reached |= more
    assert reached == set(JobState)
    ends = set(TERMINAL)
    while more := {state for state, following in TRANSITIONS.items() if following & ends} - ends:
        ends |= more
    assert ends == set(JobState)
