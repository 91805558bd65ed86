"""What only reports can fail without a consequence."""

from __future__ import annotations

import pytest
from polars.exceptions import PanicException

from headrace.core.reporting import FAILED, reported, reporting


@pytest.mark.parametrize("error", [ValueError("x"), PanicException("x"), RecursionError()])
def test_an_error_ends_the_report_and_is_told_once(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(number: int, *, times: int) -> int:
        raise error

    FAILED.clear()
    for _ in range(2):
        with reporting("kind"):
            raise error
        assert reported("kind", -1, fails, 1, times=2) == -1
    assert FAILED == {"kind": 4}
    assert capsys.readouterr().err.count("a report failed (kind)") == 1


def test_what_ends_a_process_or_a_task_is_no_report() -> None:
    with pytest.raises(KeyboardInterrupt), reporting("kind"):
        raise KeyboardInterrupt


def test_a_report_that_works_is_passed_on() -> None:
    assert reported("kind", 0, max, 1, 2) == 2
