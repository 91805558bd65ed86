"""Times of the control plane out of the environment."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.rpc.time_settings import ClusterTimes, times_from


def test_what_is_not_set_keeps_its_default() -> None:
    assert times_from({}) == ClusterTimes()
    assert times_from({"HEADRACE_LEASE": "8s", "HEADRACE_CANCEL": ""}) == ClusterTimes(lease=8_000)


def test_all_of_them_can_be_set() -> None:
    given = {
        "HEADRACE_HEARTBEAT": "500ms",
        "HEADRACE_LEASE": "3s",
        "HEADRACE_WORKER_LOST": "4s",
        "HEADRACE_RECONNECT": "1s",
        "HEADRACE_CANCEL": "1m",
        "HEADRACE_ORPHAN": "2m",
    }

    assert times_from(given) == ClusterTimes(500, 4_000, 1_000, 3_000, 60_000, 120_000)


@pytest.mark.parametrize("text", ["soon", "0", "0s"])
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(UserError, match="HEADRACE_LEASE"):
        times_from({"HEADRACE_LEASE": text})


@pytest.mark.parametrize("given", [{"HEADRACE_LEASE": "20s"}, {"HEADRACE_HEARTBEAT": "6s"}])
def test_times_under_which_two_would_write_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(UserError, match="do not fit together"):
        times_from(given)
