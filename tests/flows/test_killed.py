"""The pipelines of this folder on a cluster, with slots killed on the way: the rows of the golden.

Sinks are at-least-once: rows count once, updating ones by the last row of their key.
"""

from __future__ import annotations

from support.flow_cluster import Stage
from support.flow_runs import Staged, check, disturbed, every_flow
from support.flow_site import Flow


@every_flow
def test_killed(flow: Flow, staged: Staged) -> None:
    def run(stage: Stage) -> None:
        if not stage.parts:
            stage.submit()
            stage.checkpointed()
            stage.kill_slot()
        else:
            stage.feed(0)
            stage.submit()
            stage.settle(0)
            stage.feed(1)
            stage.kill_slot()
            stage.settle(1)
            stage.feed(2)
            stage.kill_slot()
            stage.settle(2)
        stage.finish()

    check(disturbed(staged, run))
