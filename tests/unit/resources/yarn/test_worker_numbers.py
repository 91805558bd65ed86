"""Workers' ids as numbers of requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InternalError
from headrace.resources.yarn.worker_numbers import number_of, worker_of


@given(st.integers(0, 2**38 - 1), st.integers(0, 2**24 - 1))
def test_a_number_names_its_worker(term: int, made: int) -> None:
    worker = f"w{term}-{made}"
    number = number_of(worker)
    assert 0 <= number < 2**63, "Java's long"
    assert worker_of(number) == worker


@pytest.mark.parametrize("worker", ["flights-w1-1", "w1", f"w1-{2**24}", f"w{2**38}-1"])
def test_other_ids_are_a_defect(worker: str) -> None:
    with pytest.raises(InternalError):
        number_of(worker)
