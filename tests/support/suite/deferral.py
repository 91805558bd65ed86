"""Test files that wait for programs which a machine may be building meanwhile: they come last until these are there."""

from __future__ import annotations

from collections.abc import Sequence

from support.kubernetes.programs.binaries import missing
from support.kubernetes.programs.recipe import CHARTS, CONTROL, NODE, Component

_NEEDS: tuple[tuple[str, tuple[Component, ...]], ...] = (
    ("tests/conformance/test_electors.py", CONTROL),
    ("tests/conformance/test_lease_election.py", CONTROL),
    ("tests/conformance/test_resource_drivers.py", CONTROL),
    ("tests/integration/deployment/test_pods.py", NODE),
    ("tests/integration/kubernetes/test_chart.py", (*CONTROL, CHARTS)),
    ("tests/integration/kubernetes/test_cluster.py", NODE),
    ("tests/integration/kubernetes/test_faults.py", NODE),
    ("tests/integration/kubernetes/test_image.py", NODE),
    ("tests/integration/kubernetes/test_node_cluster.py", NODE),
    ("tests/integration/kubernetes/test_operator_pods.py", NODE),
    ("tests/integration/kubernetes/test_shipped.py", (*NODE, CHARTS)),
    ("tests/integration/kubernetes/test_spark.py", NODE),
    ("tests/integration/kubernetes/", CONTROL),
    ("tests/integration/leadership/test_kubernetes.py", CONTROL),
    ("tests/integration/operator/test_namespaces.py", (*CONTROL, CHARTS)),
    ("tests/integration/operator/test_pods.py", NODE),
    ("tests/integration/operator/", CONTROL),
)
"""The beginning of a file's name, and what it needs; the first one that fits counts."""


def undeferred(files: Sequence[str]) -> Sequence[str]:
    """Returns the files that need not wait; all of them if there are no others."""
    return [file for file in files if not missing(_needs(file))] or files


def _needs(file: str) -> tuple[Component, ...]:
    return next((components for start, components in _NEEDS if file.startswith(start)), ())
