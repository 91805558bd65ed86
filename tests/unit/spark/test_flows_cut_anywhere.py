"""The pipelines of tests/flows, cut at random and gone on from there by either engine, with another `max_parallelism`,
and in slots with state in memory or on disk: always the rows of the golden.

Without Spark: levels run in this process, in any order, tasks twice, with little memory
(`support.spark.local_exchange`). Every choice of a run follows from one seed. The commit tier runs one fixed seed a
flow, the full tier draws them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.core.errors import UserError
from headrace.local.engine.compile import compile_pipeline
from headrace.spark.launch.replay import require_replayable
from headrace.spec.reading.read import pipeline_from_dict
from support.flows.backends import BACKENDS
from support.flows.cuts import random_cut
from support.flows.engines import NOT_REPLAYABLE, Stretch, live, replayed
from support.flows.in_memory import InMemory, in_memory, write_inputs
from support.flows.site import Flow, flows
from support.spark.local_exchange import LocalExchange

pytestmark = pytest.mark.turns(2)

drawn = settings(
    max_examples=10,  # a run takes seconds
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # another seed is another run: nothing to shrink
)
ENGINES = ("s", "ss", "sss", "sls", "lsl", "ssl")
"""Who runs the stretches one after the other: s the Spark engine, l slots."""
BLOB_ROWS = (65_536, 500, 13)
KEY_GROUPS = (128, 5, 7, 32_768)
"""`max_parallelism` of a stretch."""
FLOWS = flows()
every_flow = pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files that the flows read, and the module of their function on the import path."""
    folder = tmp_path_factory.mktemp("in")
    write_inputs(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


@every_flow
def test_the_rows_of_the_golden(flow: Flow, inputs: Path, tmp_path: Path) -> None:
    engines = ENGINES[FLOWS.index(flow) % len(ENGINES)]
    stretch_by_stretch(flow, inputs, tmp_path, engines, random.Random(flow.name))


@pytest.mark.full
@every_flow
@drawn
@given(seed=st.integers(0, 1 << 32), engines=st.sampled_from(ENGINES))
def test_the_rows_of_the_golden_whatever_is_drawn(
    flow: Flow, inputs: Path, tmp_path_factory: pytest.TempPathFactory, seed: int, engines: str
) -> None:
    stretch_by_stretch(flow, inputs, tmp_path_factory.mktemp("f"), engines, random.Random(seed))


def stretch_by_stretch(flow: Flow, inputs: Path, folder: Path, engines: str, draw: random.Random) -> None:
    """Runs the flow to its end, a stretch by each of the engines, and checks its rows."""
    with in_memory(flow, inputs) as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.spark.task.output.outlets.BLOB_ROWS", draw.choice(BLOB_ROWS))
        patch.setattr("headrace.spark.task.level_run.MERGE_BYTES", 8 * draw.choice(BLOB_ROWS))
        patch.setattr("headrace.state.table.ROWS_RECENT_MAX", draw.choice([65_536, 16]))
        patch.setattr("headrace.state.runs.MOVED_BYTES_MIN", 1)
        patch.setattr("headrace.spark.task.output.outlets.COMBINED_ROWS", draw.choice([65_536, 100, 1]))
        patch.setattr("headrace.spark.task.output.outlets.WORTH_BYTES", draw.choice([0.5, 100.0]))
        begin, cut = None, None
        for number, engine in enumerate(engines, start=1):
            last = number == len(engines)
            cut = None if last else random_cut(draw, cut, run.ends)
            stretch = Stretch(
                run.until(cut),
                draw.randint(1, 5),
                begin,
                closes=last,
                floors=run.floors,
                backend=draw.choice(BACKENDS),
                groups=draw.choice(KEY_GROUPS),
            )
            if engine == "s":
                begin = replayed(stretch, LocalExchange(draw.randrange(1 << 32)), folder)
            else:
                begin = live(stretch, folder)
        check(run)


def check(run: InMemory) -> None:
    """The golden's rows, and none of them twice."""
    written = run.written()
    assert run.flow.canonical(written) == run.flow.golden.read_text().splitlines()
    assert not {sink: rows for sink, rows in run.flow.repeated(written).items() if rows}


def test_flows_that_cannot_be_replayed_are_refused_with_node_and_reason() -> None:
    refused = {}
    for flow in flows():
        try:
            require_replayable(compile_pipeline(pipeline_from_dict(flow.document)).logical)
        except UserError as error:
            refused[flow.name] = "\n".join(line.strip() for line in str(error).splitlines()[1:-1])
    assert refused == NOT_REPLAYABLE
