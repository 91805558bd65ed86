"""The registry of jobs, event by event."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headrace.coordinator.job_registry import effects as do
from headrace.coordinator.job_registry import events as on
from headrace.coordinator.job_registry.entry import Phase
from headrace.coordinator.job_registry.registry import REQUESTS_MAX, Registry
from headrace.coordinator.rest.service import JobConflictError
from headrace.core.errors import ExternalError
from headrace.rpc.messages import Failure

FULL = Failure("the disk is full", "external", retry=True)
BROKE = Failure("a broken invariant", "internal", retry=True)
CANCELED = on.End("CANCELED")


def registry(*waiting: str, ended: Iterable[str] = ()) -> Registry:
    """One that has read these jobs; each has its id as its name. The first try of all is under way."""
    made = Registry(retry_s=5.0, breaks_max=3)
    jobs = [on.ReadJob(job, job, None) for job in waiting]
    made.handle(on.JobsRead((*jobs, *(on.ReadJob(job, job, CANCELED) for job in ended))))
    return made


def driving(job: str = "a") -> Registry:
    made = registry()
    made.handle(on.SubmitAsked(job, job, allow_duplicate=False))
    assert made.handle(on.SubmitKept(job)) == [do.Drive(job)]
    return made


def stop(request: str) -> on.Stop:
    return on.Stop(request, "/savepoints", drain=True)


def phase(made: Registry, job: str = "a") -> Phase:
    return made.jobs[job].phase


# ---- the start -------------------------------------------------------------------------------------------------------


def test_all_jobs_without_an_end_are_tried_at_once() -> None:
    made = Registry(retry_s=5.0, breaks_max=3)
    read = on.JobsRead((on.ReadJob("a", "n", None), on.ReadJob("b", "m", CANCELED), on.ReadJob("c", "o", None)))
    assert made.handle(read) == [do.Try("a", 1, 0.0), do.Try("c", 1, 0.0)]
    assert [phase(made, job) for job in "abc"] == [Phase.WAITING, Phase.ENDED, Phase.WAITING]


@pytest.mark.parametrize(
    "event", [on.SubmitAsked("a", "n", False), on.CancelAsked("a", "r"), on.StopAsked("a", stop("r"))]
)
def test_nothing_is_asked_for_before_the_jobs_are_read(event: on.Event) -> None:
    with pytest.raises(ExternalError, match="starting") as refused:
        Registry(retry_s=5.0, breaks_max=3).handle(event)
    assert refused.value.retry


# ---- submitting ------------------------------------------------------------------------------------------------------


def test_a_submission_holds_its_name_from_the_beginning() -> None:
    made = registry()
    made.handle(on.SubmitAsked("a", "n", allow_duplicate=False))
    with pytest.raises(JobConflictError, match="being submitted just now"):
        made.handle(on.SubmitAsked("b", "n", allow_duplicate=False))
    made.handle(on.SubmitAsked("b", "n", allow_duplicate=True))
    made.handle(on.SubmitKept("a"))
    with pytest.raises(JobConflictError, match=r"job a of that name .* runs already"):
        made.handle(on.SubmitAsked("c", "n", allow_duplicate=False))


def test_a_submission_that_failed_before_it_was_written_frees_its_name() -> None:
    made = registry()
    made.handle(on.SubmitAsked("a", "n", allow_duplicate=False))
    assert made.handle(on.SubmitFailed("a", stored=False)) == []
    made.handle(on.SubmitAsked("b", "n", allow_duplicate=False))


def test_one_whose_write_failed_holds_its_name_until_it_surely_is_not_on_disk() -> None:
    made = registry()
    made.handle(on.SubmitAsked("a", "n", allow_duplicate=False))
    assert made.handle(on.SubmitFailed("a", stored=True)) == [do.Discard("a")]
    assert made.handle(on.NotDiscarded("a")) == [do.Discard("a", 5.0)]
    with pytest.raises(JobConflictError):
        made.handle(on.SubmitAsked("b", "n", allow_duplicate=False))
    assert made.handle(on.Discarded("a")) == []
    made.handle(on.SubmitAsked("b", "n", allow_duplicate=False))


# ---- tries -----------------------------------------------------------------------------------------------------------


def test_storage_that_is_away_is_tried_again() -> None:
    made = registry("a")
    assert made.handle(on.TryAway("a", 1, "no route")) == [do.Try("a", 2, 5.0)]
    assert made.jobs["a"].why == "no route; tried again every 5 s"
    assert made.handle(on.TryReady("a", 2)) == [do.Drive("a")]
    assert phase(made) is Phase.DRIVEN


@pytest.mark.parametrize("answer", [on.TryReady("a", 1), on.TryAway("a", 1, "away"), on.TryHopeless("a", 1, "gone")])
def test_the_answer_of_an_earlier_try_is_stale(answer: on.Event) -> None:
    made = registry("a")
    made.handle(on.TryAway("a", 1, "no route"))
    assert made.handle(answer) == []
    assert phase(made) is Phase.WAITING


def test_a_try_that_was_under_way_makes_no_owner_of_a_canceled_job() -> None:
    made = registry("a")
    made.handle(on.CancelAsked("a", "r"))
    assert made.handle(on.TryReady("a", 1)) == []
    made.handle(on.EndKept("a"))
    assert made.handle(on.TryReady("a", 1)) == []
    assert phase(made) is Phase.ENDED


def test_a_job_that_cannot_go_on_is_left_and_holds_its_name() -> None:
    made = registry("a")
    made.handle(on.StopAsked("a", stop("r")))
    (answer,) = made.handle(on.TryHopeless("a", 1, "its savepoint is gone"))
    assert isinstance(answer, do.Answer)
    assert (answer.request, answer.failure is not None) == ("r", True)
    assert made.jobs["a"].why == "this coordinator could not go on with it: its savepoint is gone"
    with pytest.raises(JobConflictError, match=r"job a of that name .* could not go on"):
        made.handle(on.SubmitAsked("b", "a", allow_duplicate=False))
    with pytest.raises(JobConflictError, match=r"SUSPENDED: .* savepoint is gone"):
        made.handle(on.StopAsked("a", stop("s")))


def test_a_driver_that_cannot_be_started_leaves_its_job_and_answers_its_stops() -> None:
    made = registry("a")
    made.handle(on.StopAsked("a", stop("r")))
    made.handle(on.TryReady("a", 1))
    (answer,) = made.handle(on.DriveFailed("a", "no such scheme"))
    assert isinstance(answer, do.Answer)
    assert answer.request == "r"
    assert phase(made) is Phase.LEFT


# ---- masters that break ----------------------------------------------------------------------------------------------


def test_a_broken_master_is_replaced_a_few_times() -> None:
    made = driving()
    for number in (1, 2):
        assert made.handle(on.MachineFailed("a", BROKE, again=True)) == [do.Try("a", number, 5.0)]
        made.handle(on.TryReady("a", number))
    assert made.handle(on.MachineFailed("a", BROKE, again=True)) == [do.KeepEnd("a", on.End("FAILED", failure=BROKE))]


def test_a_job_that_never_restarts_fails_with_its_master() -> None:
    made = driving()
    assert made.handle(on.MachineFailed("a", BROKE, again=False)) == [do.KeepEnd("a", on.End("FAILED", failure=BROKE))]


# ---- ends of driven jobs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [on.CancelAsked("a", "r"), on.StopAsked("a", stop("r"))])
def test_what_a_driver_answers_to_a_wish_to_end_waits_for_the_job_store(event: on.Event) -> None:
    made = driving()
    made.handle(event)
    assert made.handle(on.Answered("a", "r", "/path")) == []
    assert made.handle(on.DriverEnded("a", CANCELED)) == [do.KeepEnd("a", CANCELED)]
    assert made.jobs["a"].state == "CANCELLING"
    with pytest.raises(JobConflictError):
        made.handle(on.SubmitAsked("b", "a", allow_duplicate=False))
    assert made.handle(on.EndKept("a")) == [do.Answer("r", "/path")]
    assert made.jobs["a"].state == "CANCELED"
    made.handle(on.SubmitAsked("b", "a", allow_duplicate=False))


def test_other_answers_of_a_driver_are_passed_on() -> None:
    made = driving()
    made.handle(on.StopAsked("a", stop("r")))
    assert made.handle(on.Answered("a", "r", None, FULL)) == [do.Answer("r", None, FULL)]
    assert made.handle(on.Answered("a", "savepoint", "/path")) == [do.Answer("savepoint", "/path")]


def test_the_end_of_a_driver_that_is_over_is_kept_until_the_job_store_takes_it() -> None:
    made = driving()
    made.handle(on.CancelAsked("a", "r"))
    made.handle(on.Answered("a", "r"))
    made.handle(on.DriverEnded("a", CANCELED))
    assert made.handle(on.EndNotKept("a", FULL)) == [do.Answer("r", failure=FULL), do.KeepEnd("a", CANCELED, 5.0)]
    assert "the disk is full; tried again every 5 s" in made.jobs["a"].why
    assert made.handle(on.CancelAsked("a", "s")) == []
    assert made.handle(on.EndKept("a")) == [do.Answer("s")]


def test_a_job_that_has_another_end_cannot_be_canceled() -> None:
    made = driving()
    made.handle(on.DriverEnded("a", on.End("FINISHED")))
    with pytest.raises(JobConflictError, match="STOPPING"):
        made.handle(on.CancelAsked("a", "r"))
    made.handle(on.EndKept("a"))
    with pytest.raises(JobConflictError, match="is FINISHED"):
        made.handle(on.CancelAsked("a", "r"))


def test_a_job_that_an_earlier_coordinator_wrote_to_goes_on_here() -> None:
    made = driving()
    assert made.handle(on.DriverEnded("a", None, again=True)) == [do.Try("a", 1, 0.0)]
    made = driving()
    made.handle(on.Closing())
    assert made.handle(on.DriverEnded("a", None, again=True)) == []
    assert made.jobs["a"].phase is Phase.LEFT


def test_a_job_that_went_elsewhere_is_not_this_coordinator_s_to_end() -> None:
    made = driving()
    made.handle(on.CancelAsked("a", "r"))
    made.handle(on.Answered("a", "r", None, FULL))
    assert made.handle(on.DriverEnded("a", None)) == []
    with pytest.raises(JobConflictError, match="is SUSPENDED"):
        made.handle(on.CancelAsked("a", "s"))


def test_ended_jobs_that_the_store_has_deleted_are_forgotten() -> None:
    made = registry("a", ended=["b"])
    made.handle(on.CancelAsked("a", "r"))
    assert made.handle(on.EndKept("a", ("b",))) == [do.Answer("r"), do.Forget("b")]
    assert list(made.jobs) == ["a"]


# ---- ends of jobs that nobody drives ---------------------------------------------------------------------------------


def test_a_cancel_of_a_job_that_waits_is_answered_when_its_end_is_durable() -> None:
    made = registry("a")
    made.handle(on.StopAsked("a", stop("s")))
    assert made.handle(on.CancelAsked("a", "r")) == [do.AbandonTry("a"), do.KeepEnd("a", CANCELED)]
    with pytest.raises(JobConflictError):
        made.handle(on.StopAsked("a", stop("t")))
    failure = Failure("the job was canceled", "user", retry=False)
    assert made.handle(on.EndKept("a")) == [do.Answer("r"), do.Answer("s", failure=failure)]


def test_a_job_that_waits_ends_when_the_time_of_its_stop_is_over() -> None:
    made = registry("a")
    made.handle(on.TryAway("a", 1, "no route"))
    progress, watch = made.handle(on.StopAsked("a", stop("s")))
    assert progress == do.Progress("s", "waits for the job to go on: no route")
    assert watch == do.WatchStop("a", stop("s"))
    assert made.handle(on.StopDue("a", "another", None, "late")) == []
    assert made.handle(on.StopDue("a", "s", "/storage", "late")) == [do.AbandonTry("a"), do.KeepEnd("a", CANCELED)]
    assert made.handle(on.EndKept("a")) == [do.Answer("s", "/storage", note="late")]


def test_the_time_of_a_stop_that_a_driver_has_is_the_drivers() -> None:
    made = registry("a")
    made.handle(on.StopAsked("a", stop("s")))
    assert made.handle(on.TryReady("a", 1)) == [do.Drive("a", (stop("s"),))]
    assert made.handle(on.StopDue("a", "s", None, "late")) == []
    assert phase(made) is Phase.DRIVEN


def test_a_stop_that_is_due_while_a_cancel_is_kept_is_looked_at_again() -> None:
    made = registry("a")
    made.handle(on.StopAsked("a", stop("s")))
    made.handle(on.CancelAsked("a", "r"))
    assert made.handle(on.StopDue("a", "s", None, "late")) == [do.WatchStop("a", stop("s"))]
    made.handle(on.EndNotKept("a", FULL))
    made.handle(on.EndWithdrawn("a"))
    assert do.KeepEnd("a", CANCELED) in made.handle(on.StopDue("a", "s", None, "late"))


def test_if_its_end_cannot_be_kept_it_waits_on_with_its_stops() -> None:
    made = registry("a")
    made.handle(on.StopAsked("a", stop("s")))
    made.handle(on.CancelAsked("a", "r"))
    assert made.handle(on.EndNotKept("a", FULL)) == [do.Answer("r", failure=FULL), do.WithdrawEnd("a")]
    assert made.handle(on.EndNotWithdrawn("a", FULL)) == [do.WithdrawEnd("a", 5.0)]
    assert made.jobs["a"].state == "SUSPENDED"
    (again,) = made.handle(on.EndWithdrawn("a"))
    assert isinstance(again, do.Try)
    assert made.handle(on.TryReady("a", again.number)) == [do.Drive("a", (stop("s"),))]


@pytest.mark.parametrize("answer", [on.EndWithdrawn("a"), on.EndNotWithdrawn("a", FULL)])
def test_a_cancel_while_an_end_is_withdrawn_comes_after_that(answer: on.Event) -> None:
    made = registry("a")
    made.handle(on.CancelAsked("a", "r"))
    made.handle(on.EndNotKept("a", FULL))
    assert made.handle(on.CancelAsked("a", "s")) == []
    assert made.handle(answer) == [do.KeepEnd("a", CANCELED)]
    assert made.handle(on.EndKept("a")) == [do.Answer("s")]


def test_a_job_that_was_left_can_be_canceled() -> None:
    made = registry("a")
    made.handle(on.TryHopeless("a", 1, "gone"))
    assert made.handle(on.CancelAsked("a", "r")) == [do.KeepEnd("a", CANCELED)]
    made.handle(on.EndNotKept("a", FULL))
    assert made.handle(on.EndWithdrawn("a")) == []
    assert made.jobs["a"].why == "this coordinator could not go on with it: gone"


def test_requests_that_wait_are_bounded() -> None:
    made = registry("a")
    for number in range(REQUESTS_MAX):
        made.handle(on.StopAsked("a", stop(f"r{number}")))
    with pytest.raises(JobConflictError, match="100 requests wait"):
        made.handle(on.StopAsked("a", stop("one more")))


# ---- the end of the coordinator --------------------------------------------------------------------------------------


def test_a_coordinator_that_ends_owns_nothing_new() -> None:
    made = registry("waits", "driven", "stopped")
    made.handle(on.SubmitAsked("late", "late", allow_duplicate=False))
    made.handle(on.TryReady("driven", 1))
    made.handle(on.StopAsked("waits", stop("r")))
    effects = made.handle(on.Closing())
    assert do.Suspend("driven") in effects
    assert do.AbandonTry("waits") in effects
    assert [each.request for each in effects if isinstance(each, do.Answer)] == ["r"]
    assert made.handle(on.TryReady("waits", 1)) == []
    assert made.handle(on.SubmitKept("late")) == []
    assert made.handle(on.MachineFailed("driven", BROKE, again=True)) == []
    with pytest.raises(ExternalError, match="ends"):
        made.handle(on.SubmitAsked("new", "new", allow_duplicate=False))
    with pytest.raises(JobConflictError):
        made.handle(on.CancelAsked("waits", "s"))
    assert {entry.phase for entry in made.jobs.values()} == {Phase.LEFT}


def test_an_end_that_is_being_kept_still_is() -> None:
    made = registry("a")
    made.handle(on.CancelAsked("a", "r"))
    assert made.handle(on.Closing()) == []
    assert made.handle(on.EndKept("a")) == [do.Answer("r")]
