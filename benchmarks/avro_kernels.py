"""Measures the Avro kernels beside the JSON kernels, on the rows of K, in nanoseconds of CPU per row.

python benchmarks/avro_kernels.py [--rounds N]

Rounds alternate; each figure is a median with its range, and `of JSON` the median of the rounds' ratios. What is read
is compared with the rows first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.core.types import Schema, schema_of
from headrace.formats.avro.columns import schema_text
from headrace.formats.avro.encode import AvroEncoder
from headrace.formats.avro.resolve import resolve
from headrace.formats.avro.schema import parse_schema
from headrace.formats.json.encode import JsonEncoder
from headrace.kernels.decode.avro_decode import avro_kernel
from headrace.kernels.decode.json_decode import json_kernel
from headrace.kernels.decode.messages import MessageKernel

ROWS = 16_000
CALLS = 8
"""Of one round."""
PLAIN = schema_of({"k": "int64 not null", "ts": "timestamp not null", "v": "float64 not null"})
NULLABLE = schema_of({"k": "int64", "ts": "timestamp", "v": "float64"})
K_SCHEMA = """{"type": "record", "name": "K", "fields": [{"name": "k", "type": "long"},
  {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "v", "type": "double"}]}"""


def k_rows() -> pl.DataFrame:
    """Rows as K reads them, with times in whole milliseconds."""
    draw = np.random.default_rng(1)
    times_ms = 1_700_000_000_000 + np.arange(ROWS) + draw.integers(0, 999, ROWS)
    values = np.round(draw.random(ROWS) * 100, 3)
    return pl.DataFrame(
        {
            "k": draw.integers(0, 10_000, ROWS),
            "ts": pl.Series(times_ms * 1_000).cast(pl.Datetime("us", "UTC")),
            "v": values,
        }
    )


def decoding(kernel: MessageKernel | None, messages: pa.Array, rows: pl.DataFrame) -> Callable[[], object]:
    assert kernel is not None, "kernels are compiled: make kernels"
    frame, doubt = kernel.decode(messages)
    assert not doubt.any()
    assert frame.equals(rows)
    return lambda: kernel.decode(messages)


def cases(rows: pl.DataFrame) -> dict[str, tuple[Callable[[], object], str]]:
    """Name -> the call, and the name of the case beside which it stands."""
    json = JsonEncoder(PLAIN, timestamps="epoch_ms")
    schema, nullable = parse_schema(K_SCHEMA), parse_schema(schema_text(NULLABLE))
    written = AvroEncoder(PLAIN, schema)
    messages = written.encode(rows)

    def avro(columns: Schema) -> MessageKernel | None:
        return avro_kernel(columns, resolve(schema if columns is PLAIN else nullable, columns).code)

    texts = json.encode(rows).cast(pa.large_binary())
    optional = AvroEncoder(NULLABLE, nullable)
    return {
        "JSON in": (decoding(json_kernel(PLAIN), texts, rows), "JSON in"),
        "Avro in": (decoding(avro(PLAIN), messages, rows), "JSON in"),
        "Avro in, nullable": (decoding(avro(NULLABLE), optional.encode(rows), rows), "JSON in"),
        "JSON out": (lambda: json.encode(rows), "JSON out"),
        "Avro out": (lambda: written.encode(rows), "JSON out"),
        "Avro out, nullable": (lambda: optional.encode(rows), "JSON out"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    calls = cases(k_rows())
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, (call, _beside) in calls.items():
            begin = time.process_time()
            for _ in range(CALLS):
                call()
            found[name].append((time.process_time() - begin) / CALLS / ROWS * 1e9)
    print(f"{rounds} rounds, load {os.getloadavg()[0]:.1f}")
    for name, (_, beside) in calls.items():
        ratio = statistics.median(one / other for one, other in zip(found[name], found[beside], strict=True))
        low, high = min(found[name]), max(found[name])
        print(f"{name:<20} {statistics.median(found[name]):6.1f} ns ({low:.1f} .. {high:.1f}), {ratio:.2f} of JSON")


if __name__ == "__main__":
    main()
