"""Rows by rule: seeded, at a rate, bounded or unbounded."""

from headrace.connect.registry import Connector
from headrace_connectors.generator.connector import GeneratorSourceConfig

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
