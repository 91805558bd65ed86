"""Measures decoding and encoding in microseconds of CPU per row, compared with a direct call of the library.

python benchmarks/formats.py [--rounds N]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from functools import partial

import orjson
import polars as pl
import pyarrow as pa

from headrace.connect.format import Decoded, Decoder, Messages
from headrace.connect.registry import format_named
from headrace.core.types import Schema, schema_of

SCHEMA = schema_of(
    {
        "origin": "string not null",
        "carrier": "string",
        "dep_delay": "float64",
        "flight": "int64",
        "scheduled": "timestamp",
    }
)
ROWS = 16_384
READ = {name: pl.String() if dtype == pl.Datetime else dtype for name, dtype in SCHEMA.polars().items()}
GARBAGE = [
    b"",
    b"[]",
    b'{"origin":"JFK","dep_d',
    b'{"origin":"JFK","flight":1.5}',
    b'{"origin":"JFK","dep_delay":"NA"}',
    b'{"origin":null}',
    b'{"origin":"JFK",\n"flight":1}',
    b'{"origin":"\xff"}',
    None,
]


def messages(rows: int) -> list[bytes]:
    """Flights as JSON."""
    draw = random.Random(1)
    return [
        orjson.dumps(
            {
                "origin": draw.choice(["JFK", "LGA", "EWR"]),
                "carrier": draw.choice(["UA", "AA", "9E"]),
                "dep_delay": None if row % 40 == 0 else float(draw.randint(-20, 300)),
                "flight": draw.randint(1, 9000),
                "scheduled": f"2013-{row % 12 + 1:02d}-{row % 28 + 1:02d}T{row % 24:02d}:00:00Z",
                "dest": draw.choice(["LAX", "ORD"]),
                "distance": draw.randint(80, 5000),
            }
        )
        for row in range(rows)
    ]


def cost_us(call: Callable[[], object], rows: int, rounds: int) -> tuple[float, float]:
    """Median and spread (max - min) of CPU microseconds a row."""
    calls = max(1, 50_000 // rows // 4)
    call()
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(calls):
            call()
        found.append((time.process_time() - begin) / calls / rows * 1e6)
    return statistics.median(found), max(found) - min(found)


def decoder(name: str, schema: Schema = SCHEMA) -> Decoder:
    return format_named(name).config().open_decoder(schema)


def bare_read(raw: list[bytes]) -> pl.DataFrame:
    return pl.read_ndjson(b"\n".join(raw), schema=READ)


def cases() -> list[tuple[str, int, Callable[[], object]]]:
    raw = messages(ROWS)
    draw = random.Random(2)
    dirty = [draw.choice(GARBAGE) if draw.random() < 0.01 else item for item in raw]
    one_bad = [b"{" if place == ROWS // 3 else item for place, item in enumerate(raw)]
    array = pa.array(raw, pa.binary())
    decoded = decoder("json").decode(Messages(array))
    assert isinstance(decoded, Decoded)
    rows = decoded.rows
    lines = format_named("csv").config().open_encoder(SCHEMA).encode(rows).cast(pa.binary())
    found: list[tuple[str, int, Callable[[], object]]] = []

    def decode(what: str, name: str, values: pa.Array) -> None:
        live = decoder(name)
        found.append((what, len(values), lambda: live.decode(Messages(values))))

    found.append(("bare pl.read_ndjson", ROWS, partial(bare_read, raw)))
    decode("json decode", "json", array)
    decode("json decode, 1 % garbage", "json", pa.array(dirty, pa.binary()))
    decode("json decode, one bad message", "json", pa.array(one_bad, pa.binary()))
    for size in (1, 5, 50, 200, 1000):
        found.append((f"bare pl.read_ndjson, {size} rows", size, partial(bare_read, raw[:size])))
        decode(f"json decode, {size} rows", "json", array[:size])
    decode("csv decode", "csv", lines)
    for name in ("json", "csv"):
        encoder = format_named(name).config().open_encoder(SCHEMA)
        found += [(f"{name} encode, {size} rows", size, partial(encoder.encode, rows[:size])) for size in (ROWS, 5)]
    plain = rows.with_columns(pl.col("scheduled").cast(pl.String))
    found.append(("bare write_ndjson", ROWS, plain.write_ndjson))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"{'case':<36} {'us/row':>9} {'spread':>8} {'M rows/s':>9}")
    for what, rows, call in cases():
        cost, spread = cost_us(call, rows, rounds)
        print(f"{what:<36} {cost:>9.3f} {spread:>8.3f} {1 / cost:>9.2f}")


if __name__ == "__main__":
    main()
