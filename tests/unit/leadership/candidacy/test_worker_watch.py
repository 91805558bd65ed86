"""A leader that had workers has lost them all after a while; one that never had any has lost none."""

from __future__ import annotations

from headrace.leadership.candidacy.worker_watch import WorkerWatch


def test_workers_are_lost_after_a_while_without_any() -> None:
    watch = WorkerWatch(1_000)
    seen = [(0, 0), (0, 5_000), (1, 6_000), (0, 6_100), (0, 7_099), (2, 7_100), (0, 7_200), (0, 8_199), (0, 8_200)]
    assert [watch.has_lost_all(*each) for each in seen] == [False] * 8 + [True]
