"""The pipelines of this folder on a cluster, rescaled while they run: the rows of the golden.

Sinks are at-least-once: rows count once, updating ones by the last row of their key.
"""

from __future__ import annotations

from support.flow_runs import Staged, check, disturbed, every_flow, in_steps
from support.flow_site import Flow


@every_flow
def test_rescaled(flow: Flow, staged: Staged) -> None:
    check(disturbed(staged, lambda stage: in_steps(stage, stage.rescale)))
