"""The pipelines of this folder on a cluster, undisturbed: always the rows of one golden, and none of them twice.

`pytest --rewrite-goldens` writes the goldens anew, from these runs; what they should be the oracle says.
"""

from __future__ import annotations

import pytest

from support.flow_oracle import expected, rounded
from support.flow_runs import Staged, check, every_flow
from support.flow_site import Flow


@every_flow
def test_straight(flow: Flow, staged: Staged, request: pytest.FixtureRequest) -> None:
    stage = staged(None)
    if stage.parts:
        stage.feed(0)
    stage.submit()
    for number in range(1, len(stage.parts)):
        stage.settle(number - 1)
        stage.feed(number)
    if stage.parts:
        stage.settle(len(stage.parts) - 1)
    stage.finish()
    written = stage.written()
    if request.config.getoption("--rewrite-goldens"):
        flow.golden.write_text("".join(f"{line}\n" for line in flow.canonical(written)))
    check(stage)
    assert not {sink: rows for sink, rows in flow.repeated(written).items() if rows}


@every_flow
def test_goldens_are_what_the_oracle_says(flow: Flow) -> None:
    assert rounded(flow) == expected(flow)
