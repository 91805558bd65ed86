"""JOB as people write it."""

from __future__ import annotations

import re

import pytest

from headrace.coordinator.dispatch.job_reference import NamedJob, find_job, new_job_id
from headrace.core.errors import UserError

JOBS = [
    NamedJob("aa0000000001", "flights", running=False),
    NamedJob("aa0000000002", "flights", running=True),
    NamedJob("bb0000000003", "clicks", running=True),
    NamedJob("bc0000000004", "clicks", running=True),
    NamedJob("cc0000000005", "old", running=False),
]


@pytest.mark.parametrize(
    ("reference", "job"),
    [
        ("aa0000000001", "aa0000000001"),
        ("bb", "bb0000000003"),
        ("aa0000000002", "aa0000000002"),
        ("flights", "aa0000000002"),
    ],
)
def test_an_id_a_prefix_or_the_name_of_one_running_job(reference: str, job: str) -> None:
    assert find_job(JOBS, reference) == job


@pytest.mark.parametrize(
    ("reference", "message", "remedy"),
    [
        ("aa", "2 job ids begin with 'aa'", "aa0000000001 (flights), aa0000000002 (flights)"),
        ("clicks", "2 running jobs are called 'clicks'", "bb0000000003 (clicks), bc0000000004 (clicks)"),
        ("old", "no running job is called 'old'", "cc0000000005 (old)"),
        ("flihts", "no job 'flihts'", "did you mean 'flights'?"),
        ("b", "no job 'b'", "jobs: aa0000000001 (flights), "),
        ("", "no job ''", "jobs: "),
    ],
)
def test_none_or_several_is_an_error_with_the_candidates(reference: str, message: str, remedy: str) -> None:
    with pytest.raises(UserError) as raised:
        find_job(JOBS, reference)
    assert raised.value.message == message
    assert remedy in (raised.value.remedy or "")


def test_long_lists_are_cut() -> None:
    many = [NamedJob(f"ab{number:010}", "n", running=True) for number in range(12)]
    with pytest.raises(UserError, match="and 2 more"):
        find_job(many, "ab")


def test_ids_are_twelve_digits() -> None:
    made = {new_job_id() for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch("[0-9a-f]{12}", job) for job in made)
