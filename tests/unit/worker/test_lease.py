"""A slot's lease: renewed from the moment a beat was sent, and never again once it has run out."""

from __future__ import annotations

import time

from headrace.worker.lease import NS_PER_MS, Lease
from support.processes.running import wait_until

HOUR_MS = 3_600_000


def test_it_runs_out_without_a_beat() -> None:
    lease = Lease(20)
    wait_until(lease.expired, "it runs out")


def test_a_beat_renews_it() -> None:
    lease = Lease(HOUR_MS)
    lease.renew(time.monotonic_ns())
    assert not lease.expired()


def test_a_beat_counts_from_when_it_was_sent() -> None:
    lease = Lease(100)
    for _ in range(3):
        lease.renew(time.monotonic_ns() - HOUR_MS * NS_PER_MS)
    wait_until(lease.expired, "old beats do not renew it")


def test_a_lease_that_has_run_out_stays_so() -> None:
    lease = Lease(1)
    wait_until(lease.expired, "it runs out")
    lease.renew(time.monotonic_ns())
    assert lease.expired()


def test_a_beat_of_the_future_is_one_of_now() -> None:
    lease = Lease(20)
    lease.renew(time.monotonic_ns() + HOUR_MS * NS_PER_MS)
    wait_until(lease.expired, "it runs out all the same")
