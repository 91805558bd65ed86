"""Specs as the operator reads them: it says every problem with its place."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.kubernetes_operator.decisions.job_view import NoDesire
from headrace.kubernetes_operator.resources.job_spec import JobSpec
from headrace.kubernetes_operator.shell.spec_reading import spec_of

OWN = {"image": "headrace:1", "ledger": "s3://bucket/flights"}


def read(spec: dict[str, Any]) -> JobSpec | NoDesire:
    return spec_of({"metadata": {"name": "flights"}, "spec": spec}, JobSpec)


def test_a_spec_is_read_by_the_names_of_its_file_form() -> None:
    spec = read(
        {"pipeline": "name: x", "cluster": "session", "snapshots": {"every": "1h30m"}, "upgradeMode": "stateless"}
    )
    assert isinstance(spec, JobSpec)
    assert spec.snapshots is not None
    assert (spec.snapshots.every_ms, spec.upgrade_mode) == (5_400_000, "stateless")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"pipeline": "x"}, "write either `cluster` or `ownCluster`"),
        ({"cluster": "x"}, "write either `pipeline` or `pipelineFrom`"),
        ({"pipeline": "x", "cluster": "c", "paralelism": 2}, "spec.paralelism: unknown key 'paralelism'"),
        ({"pipeline": 3, "cluster": "c"}, "spec.pipeline"),
        ({"pipeline": "x", "ownCluster": {**OWN, "coordinator": {"cpu": "much"}}}, "spec.ownCluster.coordinator.cpu"),
        ({"pipeline": "x", "ownCluster": {**OWN, "workers": {"min": 3, "max": 2}}}, "do not fit together"),
        ({"pipeline": "x", "ownCluster": {**OWN, "workers": {"podTemplate": {"kind": "Job"}}}}, "not a pod template"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(spec: dict[str, Any], message: str) -> None:
    found = read(spec)
    assert isinstance(found, NoDesire)
    assert found.reason == "InvalidSpec"
    assert message in found.message
