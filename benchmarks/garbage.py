"""1 M JSON messages, 1 % of them broken in ten ways, decoded in batches of 32,768: every one accounted for."""

from __future__ import annotations

import json
import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import pyarrow as pa
from data import columns
from measure import Stopwatch

from headrace.connect.registry import format_named
from headrace.core.types import schema_of

ROWS, BATCH_ROWS = 1_000_000, 32_768
BROKEN: list[bytes | None] = [
    b'{"k": 1, "ts": 17000000',
    b'{"k": "1", "ts": 1, "v": 0.5}',
    b'{"k": 1.5, "ts": 1, "v": 0.5}',
    b'{"k": null, "ts": 1, "v": 0.5}',
    b"",
    b'{"k": 1, "ts": 1, "v": "x\ny"}',
    b'{"k": 1, "ts": 1, "v": "\xff\xfe"}',
    b'[{"k": 1}]',
    b'{"k": 1, "ts": 1, "v": NaN}',
    b"null",
]


def messages() -> tuple[list[bytes | None], int]:
    key, ts, v = columns(ROWS)
    made: list[bytes | None] = [
        b'{"k": %d, "ts": %d, "v": %s}' % (k, t, repr(x).encode())
        for k, t, x in zip(key.tolist(), ts.tolist(), v.tolist(), strict=True)
    ]
    rng = np.random.default_rng(11)
    broken = rng.choice(ROWS, ROWS // 100, replace=False)
    for number, row in enumerate(broken.tolist()):
        made[row] = None if number % 11 == 10 else BROKEN[number % 11]
    return made, len(broken)


def main() -> None:
    made, broken = messages()
    schema = schema_of({"k": "int64 not null", "ts": "timestamp", "v": "float64"})
    decoder = format_named("json").config().open_decoder(schema)
    batches = [pa.array(made[begin : begin + BATCH_ROWS], pa.large_binary()) for begin in range(0, ROWS, BATCH_ROWS)]
    watch = Stopwatch.start()
    good = bad = skipped = 0
    for batch in batches:
        decoded = decoder.decode(batch)
        good, bad, skipped = good + decoded.rows.height, bad + len(decoded.bad), skipped + decoded.skipped
    assert good == ROWS - broken, (good, bad, skipped)
    assert bad + skipped == broken, (good, bad, skipped)
    print(json.dumps(watch.report(ROWS, good)), flush=True)


if __name__ == "__main__":
    main()
