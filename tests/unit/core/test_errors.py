"""Errors: whose fault, where, and what to do."""

from __future__ import annotations

import pytest

from headrace.core.errors import (
    PROBLEMS_SHOWN_MAX,
    DataError,
    Domain,
    ExternalError,
    HeadraceError,
    InternalError,
    InvalidPipelineError,
    Location,
    Problem,
    UserError,
    did_you_mean,
)


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        (UserError, Domain.USER),
        (DataError, Domain.USER),
        (ExternalError, Domain.EXTERNAL),
        (InternalError, Domain.INTERNAL),
    ],
)
def test_every_error_knows_whose_fault_it_is(kind: type[HeadraceError], domain: Domain) -> None:
    error = kind("broken", remedy="mend it")
    assert error.domain is domain
    assert str(error) == "broken\n  mend it"
    assert str(kind("broken")) == "broken"
    assert not error.retry


def test_problems_name_their_place() -> None:
    at = Location("p.yaml", 3, 7)
    assert str(Problem("bad", ("steps", "x"), at, "do this")) == "p.yaml:3:7: bad\n  do this"
    assert str(Problem("bad", ("steps", "x"))) == "steps.x: bad"
    assert str(Problem("bad")) == "bad"


def test_an_invalid_pipeline_lists_every_problem() -> None:
    problems = [Problem("one"), Problem("two", remedy="fix")]
    error = InvalidPipelineError(problems)
    assert error.problems == problems
    assert str(error) == "one\ntwo\n  fix"
    with pytest.raises(AssertionError):
        InvalidPipelineError([])


def test_the_nearest_name_is_offered_if_one_is_near() -> None:
    assert did_you_mean("orign", ("origin", "carrier")) == "did you mean 'origin'?"
    assert did_you_mean("zzz", ("origin", "carrier")) is None
    assert did_you_mean("ORIGIN", ("carrier", "origin")) == "did you mean 'origin'?"


def test_a_message_names_a_bounded_number_of_problems() -> None:
    problems = [Problem(f"bad {number}") for number in range(PROBLEMS_SHOWN_MAX + 2)]

    error = InvalidPipelineError(problems)

    lines = str(error).splitlines()
    assert lines[-2:] == [
        f"bad {PROBLEMS_SHOWN_MAX - 1}",
        "and 2 more problems: `headrace validate --json` has all",
    ]
    assert len(error.problems) == PROBLEMS_SHOWN_MAX + 2
    assert "more" not in str(InvalidPipelineError(problems[:PROBLEMS_SHOWN_MAX]))
