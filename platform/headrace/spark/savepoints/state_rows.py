"""The rows of one state of a savepoint or checkpoint, part by part, as Arrow. Independent of the engine and of Spark.

The driver finds a `StateTable` once. It names files, so it does not change while the job writes later checkpoints.
Files of a checkpoint that is no longer retained are gone; the error says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from headrace.checkpoint.manifest import FilePart
from headrace.checkpoint.savepoints.savepoint import CorruptFileError, checked_read, find
from headrace.checkpoint.savepoints.state_contents import StoredState, chosen_state, states_of
from headrace.checkpoint.stores.store import ObjectNotFoundError
from headrace.core.errors import ExternalError
from headrace.core.keygroups import key_groups
from headrace.state.parquet import plain_batches, plain_schema
from headrace.state.snapshot import StateKind

KEY_GROUP = "__kg"
"""Column with the key group, in keyed states."""
NAMING = '.option("node", "{node}").option("state", "{state}")'


@dataclass(frozen=True, slots=True)
class StateTable:
    """One state as a table.

    columns   name -> polars type as text; keys: the columns of the key group (none: it has none)
    parts     its files, with absolute paths
    origin    its source as text: `checkpoint 7 of flight-delays`
    pruned    its job deletes it when newer checkpoints exist
    """

    origin: str
    pruned: bool
    max_parallelism: int
    columns: dict[str, str]
    keys: tuple[str, ...]
    parts: tuple[FilePart, ...]

    def schema(self) -> pa.Schema:
        """Returns its columns as plain Arrow types, the key group last."""
        schema = plain_schema(self.columns)
        return schema.append(pa.field(KEY_GROUP, pa.int32())) if self.keys else schema

    def batches(self, part: FilePart, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Returns the rows of one part, with the named columns. Raises ExternalError if the file is gone or damaged."""
        grouped = KEY_GROUP in names
        read = dict.fromkeys([*(name for name in names if name != KEY_GROUP), *(self.keys if grouped else ())])
        schema = plain_schema({name: self.columns[name] for name in read})
        for batch in plain_batches(self._data(part), schema, part.row_groups):
            whole = self._with_groups(batch) if grouped else batch
            yield whole.select(list(names))

    def _with_groups(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = pl.from_arrow(batch.select(list(self.keys)))
        assert isinstance(keys, pl.DataFrame), "batches become frames"
        groups = pa.array(key_groups(keys, self.keys, self.max_parallelism), pa.int32())
        return batch.append_column(KEY_GROUP, groups)

    def _data(self, part: FilePart) -> bytes:
        try:
            return checked_read(part)
        except CorruptFileError as error:
            if self.pruned and isinstance(error.__cause__, ObjectNotFoundError):
                raise ExternalError(
                    f"{part.path} is gone: {self.origin} is no longer retained",
                    remedy="load again for the newest checkpoint, or read a savepoint, which nobody deletes",
                ) from error
            raise


def state_table(path: str, node: str | None = None, state: str | None = None, epoch: int | None = None) -> StateTable:
    """Returns a state of what `path` names: a savepoint, a job's folder in checkpoint storage (`epoch`: which of its
    checkpoints; None: the newest) or a record of its journal.

    Raises UserError with the candidates if no state or several match; ExternalError.
    """
    found = find(path, epoch)
    manifest = found.manifest
    kept = chosen_state(manifest, node, state, NAMING)
    handles = kept.handles
    return StateTable(
        f"{manifest.kind} {manifest.epoch} of {manifest.pipeline}",
        found.journal is not None,
        manifest.max_parallelism,
        kept.columns,
        kept.keys if kept.kind == StateKind.KEYED else (),
        tuple(part for handle in handles for part in handle.files),
    )


def states(path: str, epoch: int | None = None) -> list[StoredState]:
    """Returns all states of what `path` names, as `headrace state list` shows them. Raises UserError, ExternalError."""
    return states_of(find(path, epoch).manifest)
