"""The watch over a job's data: when it looks, what it logs, and that it cannot fail the job."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from headrace.coordinator.driver.data_watch import LOOK_MS, DataWatch
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.core.clock import SystemClock
from headrace.execution.planning import JobPlans
from headrace.rpc.figures import FIRST_ROWS_MAX, FirstRows, SlotFigures, SourceFigures
from headrace.rpc.status import SlotStatus, SubtaskStatus

PIPELINE: dict[str, Any] = {
    "name": "watched",
    "sources": {"s": {"generator": {"rate": 1, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}},
    "sinks": {"out": {"from": "s", "print": {}, "format": "json"}},
}


class Stepped(SystemClock):
    """Goes on when the test says so."""

    def __init__(self) -> None:
        self.at_ms = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


def status(*, rows: int = FIRST_ROWS_MAX, ended: bool = False) -> SlotStatus:
    first = FirstRows(rows=rows, all_null=("n",))
    return SlotStatus(
        subtasks=(SubtaskStatus(task="s", subtask=0, ended=ended),),
        figures=SlotFigures(at_ms=9_000, sources=(SourceFigures(source="s", total=1, first=first),)),
    )


def look(watch: DataWatch, figures: JobFigures, report: SlotStatus) -> None:
    figures.take(0, report)
    watch.look(figures, {0: report}, 0, 1)


def test_a_warning_is_logged_once_in_an_attempt(caplog: pytest.LogCaptureFixture) -> None:
    clock, figures = Stepped(), JobFigures()
    watch = DataWatch("ab12", JobPlans(PIPELINE), clock)
    with caplog.at_level(logging.WARNING, "headrace.coordinator"):
        for _ in range(3):
            look(watch, figures, status())
            clock.at_ms += LOOK_MS
        assert [each.kind for each in watch.warnings] == ["null-column"]
        assert len(caplog.messages) == 1 and caplog.messages[0].startswith("job ab12: source s: column n is NULL")

        look(watch, JobFigures(), status())
        assert len(caplog.messages) == 2, "another attempt judges its own rows"


def test_a_look_has_its_time_except_at_the_end_of_the_input() -> None:
    clock, figures = Stepped(), JobFigures()
    watch = DataWatch("ab12", JobPlans(PIPELINE), clock)
    look(watch, figures, status(rows=30))
    look(watch, figures, status())
    assert watch.warnings == (), "not due"
    look(watch, figures, status(rows=30, ended=True))
    assert len(watch.warnings) == 1


def test_a_failure_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    watch = DataWatch("ab12", JobPlans({"name": "no pipeline"}), Stepped())
    with caplog.at_level(logging.ERROR, "headrace.coordinator"):
        look(watch, JobFigures(), status())
    assert caplog.messages == ["job ab12: its data cannot be judged"]
    assert watch.warnings == ()
