"""A partition that falls silent while its pipeline is followed: time goes on, and a replay with the floors that were
recorded gives the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.batch import visible_columns
from headrace.execution.planning import JobPlans
from headrace.spark.driver.follow import Follow, FollowWish
from headrace.spark.driver.follow_sources import Discovery, FollowSources, Splits
from headrace.spark.launch.bounds import up_to_now
from headrace.spark.launch.replay import Prepared, ReplayOptions
from headrace_connectors.memory import Collected, open_collected
from support.spark.local_exchange import LocalExchange

PIPELINE: Mapping[str, Any] = {
    "name": "silent",
    "parallelism": 2,
    "sources": {
        "rows": {
            "generator": {
                "rows": 400,
                "partitions": 2,
                "columns": {
                    "id": {"sequence": {"start": 0}},
                    "at": {"time": {"start": "2024-03-01T00:00:00Z", "step": "1s"}},
                },
            },
            "schema": {"id": "int64 not null", "at": "timestamp not null"},
            "time": {"column": "at", "idle_after": "5s"},
        }
    },
    "steps": {
        "minutes": {
            "from": "rows",
            "key_by": ["id"],
            "window": {"tumbling": "1m"},
            "aggregate": {"rows": "count(*)"},
        }
    },
    "sinks": {
        "out": {"from": "minutes", "memory": {"name": "silent-out"}},
        "late": {"from": "minutes.late", "memory": {"name": "silent-late"}},
    },
}


@dataclass
class SteppedClock:
    """Time as a test says; the wall clock is set back all the while."""

    ms: int = 1_000_000

    def now_ms(self) -> int:
        """Now, by a clock that goes wrong."""
        return 2_000_000 - self.ms

    def monotonic_ms(self) -> int:
        """Now."""
        return self.ms


class Scripted(FollowSources):
    """Both partitions have come so far, by discovery; at the end all the way."""

    ends: list[tuple[int, int]]

    def discover(self, known: Splits) -> Discovery:
        """The next."""
        found = super().discover(known)
        if not self.ends:
            return found
        end = self.ends.pop(0)
        ranges: Splits = {
            source: tuple(split.model_copy(update={"stop": end[split.partition]}) for split in splits)
            for source, splits in found.ranges.items()
        }
        return Discovery(found.splits, ranges)


def rows_of(collected: Collected) -> list[tuple[Any, ...]]:
    """Visible rows, sorted."""
    return sorted(row for batch in collected.batches() for row in batch.select(visible_columns(batch)).rows())


def test_time_goes_on_and_the_floors_give_the_same_rows(tmp_path: Path) -> None:
    plans, clock = JobPlans(up_to_now(PIPELINE)), SteppedClock()
    sources = Scripted(dict(PIPELINE), plans.plan(2))
    # the second partition is silent from its 10th row on; when it goes on, its rows are late
    sources.ends = [(10, 10), (100, 10), (150, 10), (150, 10), (150, 10), (150, 60)]
    fired: list[int] = []

    def later(_: int) -> bool:
        clock.ms += 4_000
        fired.append(len(rows_of(out)))
        return False

    with open_collected("silent-out") as out, open_collected("silent-late") as late:
        wish = FollowWish(job="silent", storage=str(tmp_path / "job"), parallelism=2, interval_ms=1)
        outcome = Follow(plans, sources, wish, LocalExchange(5), clock, pause=later).run()
        followed = rows_of(out), rows_of(late)
    assert outcome.finished
    assert fired[0] == fired[1] == 0 < fired[3]
    assert outcome.late > 0
    (floor,) = outcome.floors
    assert (floor.partition, floor.position) == (1, 10)

    options = ReplayOptions(floors=outcome.floors, parallelism=3)
    with open_collected("silent-out") as out, open_collected("silent-late") as late:
        prepared = Prepared(JobPlans(PIPELINE), options, str(tmp_path), "again")
        prepared.replay(LocalExchange(6), lambda _: None).run()
        assert (rows_of(out), rows_of(late)) == followed
