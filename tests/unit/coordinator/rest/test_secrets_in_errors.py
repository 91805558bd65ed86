"""Unexpected errors are logged with their text: no value of a pipeline is in it, nor in a `repr`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from headrace.client.requests import SubmitRequest
from headrace.coordinator.store.submission import JobSubmission
from headrace.execution.connector_messages import OpenCommittersRequest
from headrace.spark.task.publish_shares import PublishOrder
from headrace.spec.reading.read import pipeline_from_dict
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_connectors.sql import SqlSinkConfig

SECRET = "Pa55word"


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (SubmitRequest, {"pipeline": SECRET}),
        (SubmitRequest, {"pipelin": {"url": SECRET}}),
        (JobSubmission, {"pipeline": SECRET}),
        (OpenCommittersRequest, {"pipeline": SECRET}),
        (PublishOrder, {"pipeline": SECRET}),
        (SqlSinkConfig, {"url": SECRET, "table": "t"}),
        (KafkaSourceConfig, {"brokers": "b", "topic": "t", "properties": {"sasl.password": [SECRET]}}),
    ],
)
def test_an_error_of_a_model_shows_no_value(model: type[BaseModel], fields: Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(fields)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value)


def test_no_repr_shows_a_pipeline() -> None:
    request = SubmitRequest(pipeline={"sinks": {"out": {"from": "a", "sql": {"url": SECRET, "table": "t"}}}})
    assert SECRET not in repr(request)
    assert SECRET not in str(request)
    form = {
        "name": "p",
        "sources": {"a": {"generator": {"columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}},
        "sinks": {"out": {"from": "a", "sql": {"url": f"sqlite:////tmp/{SECRET}.db", "table": "t"}}},
    }
    assert SECRET not in repr(pipeline_from_dict(form))
