"""A pipeline whose rows go from each slot to each: for what happens between slots."""

from __future__ import annotations

SHUFFLED = """\
name: shuffled
parallelism: 2
checkpoint: {interval: 300ms}
sources:
  numbers:
    generator: {rate: 20000, columns: {n: {sequence: {}}}}
    schema: {n: int64}
steps:
  digits:
    from: numbers
    select: {digit: n % 10}
  counts:
    from: digits
    key_by: [digit]
    aggregate: {c: count(*)}
sinks:
  out:
    from: counts
    print: {}
    format: json
"""
