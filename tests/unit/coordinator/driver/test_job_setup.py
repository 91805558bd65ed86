"""The term in the name of a journal's writer."""

from __future__ import annotations

import pytest

from headrace.coordinator.driver.job_setup import is_of_earlier_term, new_writer


def test_only_a_coordinator_that_led_before_is_of_an_earlier_term() -> None:
    writer = new_writer(7)
    assert writer != new_writer(7)
    assert is_of_earlier_term(writer, 8)
    assert not is_of_earlier_term(writer, 7)
    assert not is_of_earlier_term(writer, 6)


@pytest.mark.parametrize("writer", [None, "", "0123456789abcdef", "term-x-0123456789abcdef", "term-1-", "run-1-2"])
def test_others_are_not(writer: str | None) -> None:
    assert not is_of_earlier_term(writer, 9)
