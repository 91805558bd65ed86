"""Every connector's example is what it says: loadable, with a format where one is needed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from ruamel.yaml import YAML

from headrace.connect.registry import connector, connector_names, format_named
from headrace.core.types import schema_of

OURS = ("archive", "files", "generator", "kafka", "memory", "print", "sql")


def test_all_are_installed() -> None:
    assert set(OURS) <= set(connector_names())


@pytest.mark.parametrize("name", OURS)
def test_modules_for_connector_hosts_are_there(name: str) -> None:
    assert all(find_spec(module) is not None for module in connector(name).host_modules)


@pytest.mark.parametrize("name", OURS)
def test_example_source(name: str) -> None:
    entry = connector(name)
    assert (entry.source is None) == (entry.example_source == "")
    if entry.source is None:
        return
    node = YAML(typ="safe", pure=True).load(entry.example_source)
    entry.source.model_validate(node.pop(name))
    schema = schema_of(node.pop("schema"))
    assert len(schema) > 0
    if entry.source.takes_format == "required":
        assert format_named(node.pop("format")).config().check_source(schema) == []
    assert not node


@pytest.mark.parametrize("name", OURS)
def test_example_sink(name: str) -> None:
    entry = connector(name)
    assert (entry.sink is None) == (entry.example_sink == "")
    if entry.sink is None:
        return
    node = YAML(typ="safe", pure=True).load(entry.example_sink)
    entry.sink.model_validate(node.pop(name))
    if entry.sink.takes_format == "required":
        format_named(node.pop("format"))
    assert not node


@pytest.mark.parametrize("name", OURS)
def test_configs_survive_json(name: str) -> None:
    entry = connector(name)
    pairs = ((entry.source, entry.example_source), (entry.sink, entry.example_sink))
    for model, example in pairs:
        if model is not None:
            config = model.model_validate(YAML(typ="safe", pure=True).load(example)[name])
            assert model.model_validate_json(config.model_dump_json(by_alias=True)) == config
