"""Connectors and formats of the tests' own, so that the spec is tested without any installed one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest
from pydantic import Field

from headrace.connect import registry
from headrace.connect.format import NO_ENGINE, Decoder, Encoder, FormatConfig, FormatContext
from headrace.connect.registry import Connector, Format
from headrace.connect.sink import SinkConfig, SinkContext, Writer
from headrace.connect.source import Enumerator, Reader, SourceConfig, SourceContext
from headrace.core.config import Duration, secret
from headrace.core.errors import UserError, did_you_mean
from headrace.core.types import Schema


class LogSource(SourceConfig):
    """Stands in for Kafka."""

    brokers: str = Field(min_length=1)
    topic: str | None = None
    topics: tuple[str, ...] | None = None
    start: Literal["earliest", "latest"] | dict[int, int] = "earliest"
    retries: int = Field(default=3, ge=0)
    fast: bool = False
    linger: Duration = 5
    password: str | None = secret(default=None)
    metadata: dict[str, str] = Field(default_factory=dict)
    properties: dict[str, str] = Field(default_factory=dict)

    @property
    def metadata_columns(self) -> Mapping[str, str]:
        return self.metadata

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        raise NotImplementedError

    def open_reader(self, context: SourceContext) -> Reader:
        raise NotImplementedError


class LogSink(SinkConfig):
    """Stands in for Kafka."""

    brokers: str
    topic: str
    key: tuple[str, ...] = ()
    mode: Literal["append", "upsert"] = "append"
    properties: dict[str, str] = Field(default_factory=dict)

    def open_writer(self, context: SinkContext) -> Writer:
        raise NotImplementedError


class RowsSource(SourceConfig):
    """Gives rows without a format."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"
    rows: int = 10

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        raise NotImplementedError

    def open_reader(self, context: SourceContext) -> Reader:
        raise NotImplementedError


class ShowSink(SinkConfig):
    """Takes rows."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "optional"
    limit: int | None = None

    def open_writer(self, context: SinkContext) -> Writer:
        raise NotImplementedError


class PlainFormat(FormatConfig):
    """A format with two options."""

    delimiter: str = ","
    header: bool = True

    def check_source(self, schema: Schema) -> list[str]:
        return []

    def check_sink(self, schema: Schema) -> list[str]:
        return []

    def open_decoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Decoder:
        raise NotImplementedError

    def open_encoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Encoder:
        raise NotImplementedError


CONNECTORS = {
    "kafka": Connector("kafka", "a log", LogSource, LogSink),
    "generator": Connector("generator", "made rows", RowsSource),
    "print": Connector("print", "shows rows", sink=ShowSink),
}
FORMATS = {name: Format(name, name, PlainFormat) for name in ("json", "csv", "raw")}


def _lookup(word: str, entries: Mapping[str, Any], name: str) -> Any:
    if name not in entries:
        raise UserError(f"unknown {word} {name!r}", remedy=did_you_mean(name, tuple(entries)))
    return entries[name]


@pytest.fixture
def own_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "connector_names", lambda: tuple(CONNECTORS))
    monkeypatch.setattr(registry, "format_names", lambda: tuple(FORMATS))
    monkeypatch.setattr(registry, "connector", lambda name: _lookup("connector", CONNECTORS, name))
    monkeypatch.setattr(registry, "format_named", lambda name: _lookup("format", FORMATS, name))
