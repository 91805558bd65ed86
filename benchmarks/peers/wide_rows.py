"""The wide rows: 20 fields of all types, lists and structs among them, about 640 bytes of JSON.

Decimals, times, dates and bytes are text here, as they are in JSON; `TYPES` has the types to which contenders parse
them.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

CHUNK_ROWS, POOL_ROWS, SEED = 20_000, 4_096, 11
START_MS = 1_700_000_000_000
QUANTITY_LIMIT = 50
"""The filter keeps rows with more than this; `quantity` is uniform from 1 to 100."""

TYPES: dict[str, Any] = {
    "id": "int64",
    "at": "timestamp",
    "day": "date",
    "customer": "int32",
    "country": "string",
    "email": "string",
    "note": "string",
    "premium": "bool",
    "gift": "bool",
    "quantity": "int32",
    "price": "decimal(12,2)",
    "discount": "float32",
    "weight": "float64",
    "score": "float64",
    "signature": "binary",
    "tags": ["string"],
    "ratings": ["int32"],
    "address": {"street": "string", "city": "string", "zip": "string", "geo": {"lat": "float64", "lon": "float64"}},
    "device": {"os": "string", "version": "string", "screen": {"width": "int32", "height": "int32"}},
    "lines": [{"sku": "string", "count": "int32", "price": "decimal(12,2)"}],
}
"""Fields and their types, as a pipeline's schema has them."""

_JSON: dict[str, pl.DataType] = {
    "bool": pl.Boolean(),
    "int32": pl.Int32(),
    "int64": pl.Int64(),
    "float32": pl.Float32(),
    "float64": pl.Float64(),
}
_WORDS = ("river", "gate", "canal", "weir", "lock", "sluice", "mill", "race", "dam", "pond", "brook", "spring", "ford")
_CITIES = ("Wrocław", "Zürich", "Lyon", "København", "Porto", "Leeds", "Gent", "Brno")


def schema() -> dict[str, pl.DataType]:
    """Returns polars' types of the JSON fields: numbers, booleans, text, lists and structs."""
    return {name: _polars(kind) for name, kind in TYPES.items()}


def _polars(kind: Any) -> pl.DataType:
    match kind:
        case [element]:
            return pl.List(_polars(element))
        case dict():
            return pl.Struct({name: _polars(field) for name, field in kind.items()})
        case _:
            return _JSON.get(kind, pl.String())


def frame(rows: int) -> pl.DataFrame:
    """Returns `rows` rows in the types of `schema`; same rows each time.

    Numbers, times and flags are drawn a row; texts, lists and structs are drawn from a pool of `POOL_ROWS` rows.
    """
    draw = np.random.default_rng(SEED)
    pool = _pool(draw)[draw.integers(0, POOL_ROWS, rows)]
    at = pl.Series(START_MS + np.arange(rows, dtype=np.int64) * 10).cast(pl.Datetime("ms"))
    flags = draw.integers(0, 10, rows)
    own = pl.DataFrame(
        {
            "id": np.arange(rows, dtype=np.int64),
            "at": at.dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"),
            "day": at.dt.strftime("%Y-%m-%d"),
            "customer": draw.integers(1, 2_000_000, rows, dtype=np.int32),
            "premium": flags < 3,
            "gift": pl.Series(flags).replace_strict({1: True, 2: None}, default=False, return_dtype=pl.Boolean),
            "quantity": draw.integers(1, 101, rows, dtype=np.int32),
            "price": _decimals(draw, rows),
            "discount": (draw.integers(0, 100, rows) / 100).astype(np.float32),
            "weight": np.round(draw.random(rows) * 50, 3),
            "score": draw.random(rows),
        }
    )
    return pl.concat([own, pool], how="horizontal").select(*TYPES).cast(schema())  # type: ignore[arg-type]


def _decimals(draw: np.random.Generator, rows: int) -> pl.Series:
    cents = pl.Series(draw.integers(100, 10_000_000, rows)).cast(pl.String)
    return cents.str.head(-2) + "." + cents.str.tail(2)


def _pool(draw: np.random.Generator) -> pl.DataFrame:
    return pl.DataFrame([_pool_row(draw) for _ in range(POOL_ROWS)], infer_schema_length=None)


def _pool_row(draw: np.random.Generator) -> dict[str, Any]:
    def words(count: int) -> list[str]:
        return [_WORDS[number] for number in draw.integers(0, len(_WORDS), count)]

    def price() -> str:
        return f"{draw.integers(100, 99_999) / 100:.2f}"

    first, last = words(2)
    text = " ".join(words(int(draw.integers(1, 4))))
    # quotes and line breaks are escaped in JSON: in a tenth of the rows, as in text that people typed
    note = f'"{first}" by the {last}:\n{text}' if draw.random() < 0.1 else f"{first} by the {last}: {text}"
    return {
        "country": str(draw.choice(["PL", "CH", "FR", "DK", "PT", "GB", "BE", "CZ"])),
        "email": f"{first}{draw.integers(10, 9_999)}@example.com",
        "note": None if draw.random() < 0.05 else note,
        "signature": base64.b64encode(draw.bytes(24)).decode(),
        "tags": words(int(draw.integers(0, 4))),
        "ratings": draw.integers(1, 6, int(draw.integers(0, 6))).tolist(),
        "address": {
            "street": f"{last.title()} Street {draw.integers(1, 200)}",
            "city": str(draw.choice(_CITIES)),
            "zip": f"{draw.integers(1_000, 99_999):05d}",
            "geo": {"lat": round(draw.random() * 90, 6), "lon": round(draw.random() * 180, 6)},
        },
        "device": {
            "os": str(draw.choice(["android", "ios", "linux", "windows"])),
            "version": f"{draw.integers(1, 20)}.{draw.integers(0, 10)}",
            "screen": {"width": int(draw.integers(320, 3_840)), "height": int(draw.integers(480, 2_160))},
        },
        "lines": [
            {"sku": f"SKU-{draw.integers(10_000, 99_999)}", "count": int(draw.integers(1, 9)), "price": price()}
            for _ in range(int(draw.integers(1, 3)))
        ],
    }


def messages(rows: pl.DataFrame) -> Iterator[list[bytes]]:
    """Yields the rows as messages, `CHUNK_ROWS` at a time, in order."""
    for chunk in rows.iter_slices(CHUNK_ROWS):
        buffer = io.BytesIO()
        chunk.write_ndjson(buffer)
        yield buffer.getvalue().removesuffix(b"\n").split(b"\n")
