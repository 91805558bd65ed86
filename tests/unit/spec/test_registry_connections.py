"""A schema registry as a connection: shared by name, below a format's own fields; its secrets are not shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import InvalidPipelineError
from headrace.execution.planning import plan_pipeline
from headrace.formats.registry.connection import RegistryConnection
from headrace.plan.explain import plan_dict
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from support.third_party_site import importable, third_party_path


@pytest.fixture(autouse=True)
def site(tmp_path: Path) -> Iterator[None]:
    with importable(third_party_path(tmp_path / "site")):
        yield


SCHEMAS = {"url": "http://h:8081", "user": "u", "password": "secret1", "tls": {"ca": "ca.pem", "cert": "c.pem"}}


def document(registry: object, connection: object = SCHEMAS) -> dict[str, Any]:
    form = {"connected": {"registry": registry}}
    return {
        "name": "p",
        "connections": {"schemas": {"registry": connection}},
        "sources": {"s": {"files": {"path": "in"}, "format": form, "schema": {"t": "string"}}},
        "sinks": {"out": {"from": "s", "files": {"path": "out"}, "format": form}},
    }


def registry_of(pipeline: Pipeline) -> dict[str, Any]:
    use = pipeline.sources["s"].format
    assert use is not None
    options: dict[str, Any] = use.options
    return options["registry"]  # type: ignore[no-any-return]


def problems(data: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidPipelineError) as raised:
        pipeline_from_dict(data)
    return [str(each) for each in raised.value.problems]


def test_a_format_takes_the_fields_of_its_connection_and_its_own() -> None:
    pipeline = pipeline_from_dict(document({"use": "schemas", "context": "eu", "tls": {"key": "k.pem"}}))
    whole = {**SCHEMAS, "context": "eu", "tls": {"ca": "ca.pem", "cert": "c.pem", "key": "k.pem"}}
    assert registry_of(pipeline) == whole
    assert pipeline_from_dict(pipeline.to_dict()) == pipeline
    access = RegistryConnection.model_validate(whole).access()
    assert (access.user, access.ca, access.key, access.context) == ("u", "ca.pem", "k.pem", "eu")


def test_secrets_are_masked_wherever_a_pipeline_or_a_plan_is_shown() -> None:
    pipeline = pipeline_from_dict(document({"use": "schemas"}))
    shown = [json.dumps(pipeline.shown()), json.dumps(plan_dict(plan_pipeline(pipeline.to_dict()))), repr(pipeline)]
    assert [("secret1" in each, "http://h:8081" in each) for each in shown] == [(False, True)] * 3


def test_rows_are_no_function_of_how_a_registry_is_reached() -> None:
    use = pipeline_from_dict(document({"use": "schemas", "context": "eu"})).sources["s"].format
    assert use is not None
    assert use.config.meaning() == {"registry": {"context": "eu"}}


@pytest.mark.parametrize(
    ("registry", "connection", "says"),
    [
        ({"use": "scheme"}, SCHEMAS, "sources.s.format.connected.registry.use: there is no connection 'scheme'"),
        ({"use": "schemas"}, {**SCHEMAS, "uri": "x"}, "connections.schemas.registry.uri: unknown key 'uri'"),
        ({"use": "schemas", "token": "t"}, SCHEMAS, "a registry takes a token or a user, not both"),
        ({"url": "http://u:p@h"}, SCHEMAS, "a registry's url contains a user or password"),
        ({}, SCHEMAS, "url"),
    ],
)
def test_mistakes_are_named_with_their_place(registry: object, connection: object, says: str) -> None:
    found = problems(document(registry, connection))
    assert any(says in each for each in found), found
    assert not any("secret1" in each or ":p@" in each for each in found)


def test_a_connection_of_another_kind_is_no_registry() -> None:
    data = document({"use": "main"}) | {"connections": {"main": {"kafka": {"brokers": "b:1"}}}}
    assert "connection 'main' holds no 'registry'" in problems(data)[0]
