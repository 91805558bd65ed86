"""Every kind of state goes on from the savepoints that earlier versions wrote: as it was, rescaled, with another
`max_parallelism`, on Spark's engine, and back from there; to the bit.

    <kind>.yaml, rows-<n>.jsonl         a pipeline, and what all of them read
    golden/<kind>.jsonl                 its rows over all input
    saved/<version>/<kind>/             the savepoint in the midst of it, whose sources' files are in the folder {here};
                                        before.json: the rows up to there

What is there stays as it is. A version whose state differs gets savepoints of its own, a new kind of state a pipeline:
`PYTHONPATH=tests python -m golden_savepoints.test_golden_savepoints VERSION` writes what is missing.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.flows.backends import Backend
from support.flows.cuts import Cut
from support.flows.engines import Stretch, live, replayed
from support.flows.in_memory import InMemory, in_memory
from support.flows.site import Flow, Results
from support.spark.local_exchange import LocalExchange

HERE = Path(__file__).parent
SAVED = HERE / "saved"
BEFORE, MANIFEST = "before.json", "manifest.json"
ANYWHERE = "{here}"


@dataclass(frozen=True)
class Leg:
    """Who goes on. groups: `max_parallelism`, None: as it was."""

    parallelism: int
    groups: int | None = None
    backend: Backend = "memory"
    is_spark: bool = False


WAYS = {
    "as it was": [Leg(2)],
    "rescaled": [Leg(3, backend="disk")],
    "hashed anew": [Leg(1, 7)],
    "on Spark": [Leg(2, is_spark=True)],
    "on Spark, rescaled and hashed anew": [Leg(3, 32_768, is_spark=True)],
    "on Spark and back": [Leg(3, 7, is_spark=True), Leg(2, 128, backend="disk")],
}
KINDS = [Flow(path.stem, HERE) for path in sorted(HERE.glob("*.yaml"))]
SAVEPOINTS = sorted(path.parent for path in SAVED.glob(f"*/*/{BEFORE}"))


def cut(run: InMemory, quarters: int) -> Cut:
    """Behind so many quarters of all partitions, at another row in each."""
    return {
        source: {number: end * quarters // 4 + 7 * int(number) for number, end in ends.items()}
        for source, ends in run.ends.items()
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("saved", SAVEPOINTS, ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.turns(4)
def test_it_goes_on(saved: Path, way: str, tmp_path: Path) -> None:
    flow = Flow(saved.name, HERE)
    begin: str | None = str(of_this_tree(saved, tmp_path / "saved"))
    with in_memory(flow, HERE) as run:
        for leg in WAYS[way]:
            last = leg is WAYS[way][-1]
            until = run.until(None if last else cut(run, 3))
            stretch = Stretch(until, leg.parallelism, begin, closes=last, backend=leg.backend, groups=leg.groups)
            begin = replayed(stretch, LocalExchange(5), tmp_path) if leg.is_spark else live(stretch, tmp_path)
        after = run.written()
    before: Results = json.loads((saved / BEFORE).read_text())
    rows = {sink: [*before[sink], *after[sink]] for sink in after}
    assert flow.canonical(rows) == flow.golden.read_text().splitlines()
    assert not {sink: found for sink, found in flow.repeated(rows).items() if found}


def of_this_tree(saved: Path, copy: Path) -> Path:
    """The savepoint as if it were written in this working tree."""
    shutil.copytree(saved, copy)
    manifest = copy / MANIFEST
    manifest.write_text(manifest.read_text().replace(ANYWHERE, str(HERE)))
    return copy


def test_every_kind_has_a_savepoint() -> None:
    assert {path.name for path in SAVEPOINTS} == {kind.name for kind in KINDS}


def write(flow: Flow, target: Path) -> None:
    """Writes the savepoint of this version, and the golden of a new kind."""
    with TemporaryDirectory() as folder:
        with in_memory(flow, HERE) as run:
            found = live(Stretch(run.until(cut(run, 2)), 2), Path(folder))
            assert found is not None
            shutil.copytree(found, target)
            manifest = target / MANIFEST
            manifest.write_text(manifest.read_text().replace(str(HERE), ANYWHERE))
            (target / BEFORE).write_text(json.dumps(run.written(), ensure_ascii=False))
        if not flow.golden.exists():
            with in_memory(flow, HERE) as run:
                live(Stretch(run.until(None), 1, closes=True), Path(folder) / "straight")
                flow.golden.write_text("".join(f"{line}\n" for line in flow.canonical(run.written())))


def main(version: str) -> None:
    """Writes what this version has not."""
    (HERE / "golden").mkdir(exist_ok=True)
    for flow in KINDS:
        if not (SAVED / version / flow.name).exists():
            write(flow, SAVED / version / flow.name)


if __name__ == "__main__":
    main(sys.argv[1])
