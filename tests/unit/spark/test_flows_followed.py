"""The pipelines of tests/flows, followed: read in increments that are cut at random, with state in units, by one driver
after the other, now and then with another parallelism. Always the rows of the golden.

Every choice of a run follows from one seed. The commit tier runs one fixed seed a flow, the full tier draws them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.execution.origin import OriginWish, find_origin
from headrace.execution.planning import JobPlans
from headrace.spark.driver.follow import Follow, FollowOutcome, FollowWish
from headrace.spark.driver.follow_sources import Discovery, FollowSources, Splits
from headrace.spark.launch.bounds import up_to_now
from support.flows.backends import BACKENDS
from support.flows.cuts import Cut, position, random_cut
from support.flows.engines import NOT_REPLAYABLE, Stretch, live, replayed
from support.flows.in_memory import InMemory, in_memory, write_inputs
from support.flows.site import Flow, flows
from support.spark.local_exchange import LocalExchange

pytestmark = pytest.mark.turns(3)

drawn = settings(
    max_examples=10,  # a run takes seconds
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # another seed is another run: nothing to shrink
)
every_flow = pytest.mark.parametrize(
    "flow", [flow for flow in flows() if flow.name not in NOT_REPLAYABLE], ids=lambda flow: flow.name
)
INCREMENTS = 6


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files that the flows read, and the module of their function on the import path."""
    folder = tmp_path_factory.mktemp("in")
    write_inputs(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


@dataclass(frozen=True)
class StandingClock:
    """No time passes: else partitions whose next rows a cut holds back would be idle on a slow machine, and late."""

    def now_ms(self) -> int:
        """Always the same."""
        return 1_000_000

    def monotonic_ms(self) -> int:
        """Always the same."""
        return 1_000_000


class GrowingSources(FollowSources):
    """Sources that have no more now than up to the next of some cuts; then all."""

    cuts: list[Cut]
    run: InMemory

    def discover(self, known: Splits) -> Discovery:
        """The next discovery."""
        found = super().discover(known)
        if not self.cuts:
            return found
        cut = self.cuts.pop(0)
        ranges: Splits = {
            source: tuple(
                split.model_copy(
                    update={"stop": position(self.run.document, self.run.ends, cut, source, split.partition)}
                )
                for split in splits
            )
            for source, splits in found.ranges.items()
        }
        return Discovery(found.splits, ranges)


@every_flow
def test_the_rows_of_the_golden(flow: Flow, inputs: Path, tmp_path: Path) -> None:
    increment_by_increment(flow, inputs, tmp_path, random.Random(flow.name))


@pytest.mark.full
@every_flow
@drawn
@given(seed=st.integers(0, 1 << 32))
def test_the_rows_of_the_golden_whatever_is_drawn(
    flow: Flow, inputs: Path, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    increment_by_increment(flow, inputs, tmp_path_factory.mktemp("f"), random.Random(seed))


def increment_by_increment(flow: Flow, inputs: Path, folder: Path, draw: random.Random) -> None:
    """Follows the flow to its end, one driver after the other, and checks its rows."""
    with in_memory(flow, inputs) as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.operators.aggregation.running.BUCKET_ROWS_MAX", draw.choice([1, 5, 4_096]))
        patch.setattr("headrace.spark.task.open_task.UNITS_MAX", draw.choice([1, 3, 32]))
        patch.setattr("headrace.operators.window.operator._PORTIONS_MAX", draw.choice([1, 2, 8]))
        patch.setattr("headrace.state.table.ROWS_RECENT_MAX", draw.choice([65_536, 16]))
        patch.setattr("headrace.state.runs.MOVED_BYTES_MIN", 1)
        patch.setattr("headrace.spark.task.output.outlets.COMBINED_ROWS", draw.choice([65_536, 100, 1]))
        patch.setattr("headrace.spark.task.output.outlets.WORTH_BYTES", draw.choice([0.5, 100.0]))
        cuts: list[Cut] = []
        for _ in range(INCREMENTS):
            cuts.append(random_cut(draw, cuts[-1] if cuts else None, run.ends))
        parallelism = draw.randint(1, 3)
        begin = None
        if draw.random() < 0.5:
            stretch = Stretch(
                run.until(cuts.pop(0)),
                parallelism,
                floors=run.floors,
                backend=draw.choice(BACKENDS),
                groups=draw.choice([None, 7]),
            )
            exchange = LocalExchange(draw.randrange(1 << 32))
            begin = live(stretch, folder) if draw.random() < 0.5 else replayed(stretch, exchange, folder)
        finished = False
        while not finished:
            if draw.random() < 0.2:
                parallelism = draw.randint(1, 3)
            finished = follow(run, folder, cuts, parallelism, draw, begin).finished
        written = run.written()
        assert run.flow.canonical(written) == run.flow.golden.read_text().splitlines()


def follow(
    run: InMemory, folder: Path, cuts: list[Cut], parallelism: int, draw: random.Random, begin: str | None
) -> FollowOutcome:
    """One driver, for some increments. begin: savepoint of either engine that the job started from."""
    limits = run.until(None)
    plans = JobPlans(up_to_now(limits))
    wished = None if begin is None else OriginWish(begin, max_parallelism=plans.plan(parallelism).max_parallelism)
    origin = None if wished is None else find_origin(wished, plans, parallelism, 0)
    sources = GrowingSources(limits, plans.plan(parallelism))
    sources.cuts, sources.run = cuts, run
    wish = FollowWish(
        job="followed",
        storage=str(folder / "followed"),
        parallelism=parallelism,
        interval_ms=1,
        increments_max=draw.randint(1, 3),
        origin=origin,
        floors=run.floors,
    )
    outages = draw.choice([0.0, 0.1])
    exchange = LocalExchange(draw.randrange(1 << 32), parallelism=parallelism, outages=outages)
    return Follow(plans, sources, wish, exchange, StandingClock(), pause=lambda _: False).run()
