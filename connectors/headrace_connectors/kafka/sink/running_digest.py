"""Count and digest of a transaction's records while they are sent. Without kernels, many small batches are hashed
together, because a call then costs as much as a thousand rows."""

from __future__ import annotations

import pyarrow as pa

from headrace.core.text.digest_text import add_digests, digest_text
from headrace.kernels.kafka.row_digest import digest_of
from headrace.kernels.library import is_loaded
from headrace_connectors.kafka.sink.records import Records

TOGETHER_ROWS = 8_192
TOGETHER_BYTES = 4 << 20
"""Bounds of the rows that wait to be hashed without kernels."""


class RunningDigest:
    """Digest of one writer's records: either all of them have keys, or none."""

    def __init__(self) -> None:
        self.rows = 0
        self._digest = 0
        self._rows_max = 1 if is_loaded() else TOGETHER_ROWS
        self._waiting: list[Records] = []
        self._waiting_rows = self._waiting_bytes = 0

    def add(self, records: Records) -> None:
        """Adds records."""
        self.rows += len(records)
        self._waiting.append(records)
        self._waiting_rows += len(records)
        self._waiting_bytes += records.nbytes
        if self._waiting_rows >= self._rows_max or self._waiting_bytes >= TOGETHER_BYTES:
            self._hash()

    def text(self) -> str:
        """The digest so far, as `core.digest_text` formats it."""
        self._hash()
        return digest_text(self._digest)

    def _hash(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting_rows = self._waiting_bytes = 0
        if not waiting:
            return
        keys = [each.keys for each in waiting if each.keys is not None]
        assert len(keys) in (0, len(waiting)), "a sink has a key or has none"
        values = _joined([each.values for each in waiting])
        self._digest = add_digests(self._digest, digest_of(values, _joined(keys) if keys else None))


def _joined(columns: list[pa.Array]) -> pa.Array:
    # pyarrow copies even a single column
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
