"""The pipelines of this folder on a cluster, stopped with savepoints and gone on from them: the rows of the golden.

Sinks are at-least-once: rows count once, updating ones by the last row of their key.
"""

from __future__ import annotations

from support.flow_cluster import Stage
from support.flow_runs import Staged, check, disturbed, every_flow, in_steps
from support.flow_site import Flow


@every_flow
def test_saved(flow: Flow, staged: Staged) -> None:
    def run(stage: Stage) -> None:
        in_steps(stage, lambda to: stage.submit(to, savepoint=stage.stop(), at_once=to == 1))

    check(disturbed(staged, run))
