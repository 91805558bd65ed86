"""The pipelines of tests/flows on Spark, and cut at random between Spark and slots: always the rows of one golden.

Sources and sinks are the flows' own, Kafka's too. Cuts and parallelism are drawn from a seed that the test's parameters
fix. The commit tier runs a third of the flows straight, and one of three flows in stretches, all in turn;
`tests/unit/spark/test_flows_cut_anywhere.py` cuts every flow there, without Spark.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.driver.exchange import RddExchange
from headrace_dev.broker import EmbeddedBroker
from support.flows.cuts import Cut, ends_of, random_cut, stopping
from support.flows.engines import Stretch, live, replayable_flows, replayed
from support.flows.in_memory import messages
from support.flows.inputs import FUNCTION
from support.flows.site import Flow, FlowSite
from support.rotation import of_this_commit

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet
    from pyspark.sql import SparkSession

PARALLELISM = (1, 2, 3)
TURNS = 4
MIXED = {"kafka_idle": "slsl", "allowed_lateness": "lsls", "numbers": "slsl"}
"""Flow -> engines of those that take turns in the commit tier, besides Spark alone: floors, windows that are corrected
later, and exact partial results go from one engine to the other."""


def sequences() -> Iterator[ParameterSet]:
    """A flow and the engines of its stretches, s: on Spark, l: in slots."""
    mixed = of_this_commit(list(MIXED.items()))
    for flow in replayable_flows():
        yield pytest.param(flow, "s", id=f"{flow.name}-s", marks=pytest.mark.turns(TURNS))
        for engines in ("slsl", "lsls"):
            marks = () if (flow.name, engines) == mixed else pytest.mark.full
            yield pytest.param(flow, engines, id=f"{flow.name}-{engines}", marks=marks)


@pytest.fixture(scope="module", autouse=True)
def function_of_flows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The module of the flows' function, on this process's import path."""
    folder = tmp_path_factory.mktemp("function")
    (folder / "same_rows.py").write_text(FUNCTION)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


@pytest.fixture
def site(flow: Flow, tmp_path: Path, request: pytest.FixtureRequest) -> FlowSite:
    """Where the flow runs, with all of its input there."""

    def broker() -> EmbeddedBroker:
        running: EmbeddedBroker = request.getfixturevalue("broker")  # only for flows that need one
        return running

    made = FlowSite(flow, broker, tmp_path / "f")
    for number in range(len(made.parts)):
        made.feed(number)
    return made


@pytest.mark.parametrize(("flow", "engines"), list(sequences()))
def test_the_rows_of_the_golden(flow: Flow, engines: str, site: FlowSite, spark: SparkSession) -> None:
    draw = random.Random(f"{flow.name} {engines}")
    document = site.document()
    ends = ends_of(document, [len(lines) for lines in messages(site.parts)] if site.parts else ())
    begin: str | None = None
    cut: Cut | None = None
    parallelism = 0
    for number, engine in enumerate(engines, start=1):
        last = number == len(engines)
        cut = None if last else random_cut(draw, cut, ends)
        parallelism = draw.choice([each for each in PARALLELISM if each != parallelism])
        stretch = Stretch(stopping(document, cut, ends), parallelism, begin, closes=last, floors=site.recorded_floors())
        begin = replayed(stretch, RddExchange(spark), site.folder) if engine == "s" else live(stretch, site.folder)
    written = site.written()
    assert flow.canonical(written) == flow.golden.read_text().splitlines()
    assert not {sink: rows for sink, rows in flow.repeated(written).items() if rows}
