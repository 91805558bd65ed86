"""Rows by rule: seeded, at a rate, bounded or unbounded.

The config here is the settings of `config`, with the methods that open the live halves. The live halves are imported
only when they are opened, so that validating a pipeline stays cheap; they receive the settings of `config`.
"""

from __future__ import annotations

from headrace.connect.registry import Connector
from headrace.connect.source import Enumerator, Reader, SourceConfig, SourceContext
from headrace_connectors.generator.config import GeneratorSourceSettings


class GeneratorSourceConfig(GeneratorSourceSettings, SourceConfig):
    """Generates rows: `rows` of them, or without end, distributed over `partitions` in turn."""

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """Opens the enumerator of the partitions."""
        from headrace_connectors.generator.source import GeneratorEnumerator

        return GeneratorEnumerator(self, context)

    def open_reader(self, context: SourceContext) -> Reader:
        """Opens the reader, which computes rows."""
        from headrace_connectors.generator.source import GeneratorReader

        return GeneratorReader(self, context)


CONNECTOR = Connector(
    name="generator",
    summary="Made-up rows: the same for the same seed, at a rate or as fast as possible",
    source=GeneratorSourceConfig,
    example_source="""\
generator:
  rows: 1000
  seed: 7
  columns:
    id: {sequence: {start: 1}}
    key: {int: {min: 0, max: 99}}
    amount: {float: {min: 0, max: 50}, nulls: 0.1}
    city: {choice: [Oslo, Quito, Hanoi]}
    at: {time: {start: "2024-01-01T00:00:00Z", step: 10ms, jitter: 1s}}
    note: {string: {length: 6}}
schema:
  id: int64 not null
  key: int64
  amount: float64
  city: string
  at: timestamp
  note: string
""",
)

__all__ = ["CONNECTOR", "GeneratorSourceConfig"]
