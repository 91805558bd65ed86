"""Specs as the operator reads them: it says every problem with its place."""

from __future__ import annotations

import base64
from typing import Any, cast

import pytest

from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.core.errors import UserError
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, Document
from headrace.kubernetes_operator.decisions import steps
from headrace.kubernetes_operator.decisions.job_view import NoDesire
from headrace.kubernetes_operator.resources.job import JobSpec, RunSpec
from headrace.kubernetes_operator.shell.job_world import submit
from headrace.kubernetes_operator.shell.spec_reading import VARIABLES_LABEL, run_spec_of, spec_of, variables_of

PIPELINE = """\
name: x
sources: {s: {generator: {rows: 1, columns: {n: {sequence: {}}}}, schema: {n: int64}}}
sinks: {o: {from: s, print: {}, format: json}}
"""
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


def test_topics_are_accepted_without_being_another_job() -> None:
    spec = read({"pipeline": "name: x", "cluster": "session", "acceptNewTopics": ["a", "b"]})
    assert isinstance(spec, JobSpec)
    accepted, plain = (
        run_spec_of({"metadata": {"name": "flights"}}, each, cast("Connection", None))
        for each in (spec, spec.model_copy(update={"accept_new_topics": ()}))
    )
    assert isinstance(accepted, RunSpec)
    assert isinstance(plain, RunSpec)
    assert accepted.accept_new_topics == ("a", "b")
    assert accepted.job_key == plain.job_key
    # but it is worth another try where the job was refused
    assert accepted.digest != plain.digest


def test_another_number_of_key_groups_is_another_job_and_is_submitted() -> None:
    spec = read({"pipeline": PIPELINE, "cluster": "session", "maxParallelism": 64})
    assert isinstance(spec, JobSpec)
    changed, plain = (
        run_spec_of({"metadata": {"name": "flights"}}, each, cast("Connection", None))
        for each in (spec, spec.model_copy(update={"max_parallelism": None}))
    )
    assert isinstance(changed, RunSpec)
    assert isinstance(plain, RunSpec)
    assert changed.job_key != plain.job_key
    requests: list[SubmitRequest] = []
    for each in (changed, plain):
        step = steps.Submit(each, "key", "/kept")
        assert submit(cast("Client", OneCluster(requests)), step, {}) == steps.Submitted("key", "job")
    assert [each.max_parallelism for each in requests] == [64, None]


class OneCluster:
    """A cluster that accepts every job."""

    def __init__(self, requests: list[SubmitRequest]) -> None:
        self._requests = requests

    def submit(self, request: SubmitRequest) -> str:
        self._requests.append(request)
        return "job"


class OneSecret:
    """An API server with one Secret, which has these labels."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels

    def get(self, collection: Collection, name: str) -> Document:
        assert (collection.plural, name) == ("secrets", "db")
        data = {"PASSWORD": base64.b64encode(b"hunter2").decode()}
        return {"metadata": {"name": name, "labels": dict(self._labels)}, "data": dict(data)}


def variables(labels: dict[str, str]) -> dict[str, str]:
    spec = RunSpec(pipeline="name: x", cluster="session", variables="db")
    return dict(variables_of(spec, "flights", cast("Connection", OneSecret(labels))))


def test_a_secret_is_read_if_its_owner_allows_it() -> None:
    assert variables({VARIABLES_LABEL: "true"}) == {"PASSWORD": "hunter2"}


@pytest.mark.parametrize("labels", [{}, {VARIABLES_LABEL: "false"}, {"other": "true"}])
def test_another_secret_is_refused_with_the_label(labels: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"kubectl label secret db headrace\.dev/variables=true"):
        variables(labels)
