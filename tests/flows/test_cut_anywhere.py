"""The pipelines of this folder in slots of this process, restored from any cut with any parallelism: one golden.

Cuts go through rows that are under way: sources stand behind gates, which are opened while barriers pass. Sources are
polled in turn with the chain in one half of the runs and one batch ahead of it in the other. What is drawn hangs on one
number, which is printed where a run fails. Rows count once, updating ones by the last row of their key.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.connect.source import SourceConfig
from headrace.execution.planning import JobPlans
from headrace.rpc.deployment import Deployment
from headrace.worker.task import read_ahead
from support.clusters.gates import Gates
from support.control.slots import Attempt, Snapshot, deployed
from support.flows.cuts import Cut, random_cut
from support.flows.in_memory import in_memory, write_inputs
from support.flows.runs import every_flow
from support.flows.site import Flow
from support.suite.properties import weighted

pytestmark = pytest.mark.turns(2)

few = settings(weighted(0.08), phases=(Phase.explicit, Phase.reuse, Phase.generate))
"""Another number is another run: there is nothing to shrink."""
ATTEMPTS = (2, 2, 3)


@pytest.fixture(scope="module")
def inputs(site: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files that the flows read, and the module of their function on the import path, beside the gated connectors."""
    folder = tmp_path_factory.mktemp("in")
    write_inputs(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


@contextmanager
def polled_ahead() -> Iterator[None]:
    """Every batch is polled ahead, however small, from every source."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SourceConfig, "reads_ahead", True)
        patch.setattr(read_ahead, "is_behind", lambda polled, _: polled.batch is not None)
        yield


@every_flow
@few
@given(seed=st.integers(0, 1 << 32))
def test_the_rows_of_the_golden(flow: Flow, inputs: Path, tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """One attempt after the other, each from a checkpoint or savepoint of the one before."""
    draw = random.Random(seed)
    folder = tmp_path_factory.mktemp("slots")
    attempts = draw.choice(ATTEMPTS)
    with in_memory(flow, inputs) as run, polled_ahead() if draw.random() < 0.5 else nullcontext():
        gates = Gates(run.document, folder / "gates")
        plans = JobPlans(gates.document)
        cut: Cut | None = None
        restored: Snapshot | None = None
        saved = False

        def changed(deployment: Deployment) -> Deployment:
            return deployment.model_copy(update={"floors": run.floors})

        for number in range(1, attempts + 1):
            pipeline = plans.model(draw.randint(1, 3))
            attempt = Attempt(
                pipeline,
                folder,
                number=number,
                restored=restored,
                from_savepoint=saved,
                mode=pipeline.checkpoint.mode,
                change=changed,
            )
            with deployed(attempt):
                cut = random_cut(draw, cut, run.ends)
                gates.open(cut)
                for _ in range(draw.randint(0, 2)):
                    attempt.epoch()
                saved = draw.random() < 0.5
                restored = attempt.epoch(savepoint=str(folder / f"savepoint-{number}") if saved else "")
                if number == attempts:
                    gates.open(run.ends)
                    attempt.run_to_the_end()
                    break
                cut = random_cut(draw, cut, run.ends)
                gates.open(cut)
                for _ in range(draw.randint(0, 2)):
                    attempt.epoch()  # completed, and not the one that is restored: all of its rows come again
                attempt.cancel()
        assert flow.canonical(run.written()) == flow.golden.read_text().splitlines()
