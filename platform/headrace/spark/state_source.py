"""The Spark data source `headrace_state`: the rows of one state of a savepoint or checkpoint as a DataFrame.

    from headrace.spark import register
    register(spark)
    (spark.read.format("headrace_state")
        .option("path", "../savepoint-..").option("node", "hourly").option("state", "windows").load())

    path    a savepoint, a job's folder in checkpoint storage, or a record of its journal
    node    default: the only one; state: default the node's only one
    epoch   of a job's folder: which of its checkpoints; default: the newest

`load()` determines the files; later checkpoints of a running job do not change them. Each file of state is one Spark
partition. Keyed states have the column `__kg`, the key group. Integers of 128 bits are decimal(38,0).

Imports pyspark: only `headrace.spark` (lazily) and Spark's own processes import this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headrace.checkpoint.manifest import FilePart
from headrace.core.errors import UserError, did_you_mean
from headrace.spark.savepoints.state_rows import StateTable, state_table

NAME = "headrace_state"
_OPTIONS = ("path", "node", "state", "epoch")


class FilePartition(InputPartition):  # type: ignore[misc]  # pyspark is not typed here
    """One file of the state."""

    def __init__(self, part: FilePart) -> None:
        self.part = part


class StateReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed here
    """Reads the files of a state, in Spark tasks."""

    def __init__(self, table: StateTable, names: Sequence[str]) -> None:
        self._table = table
        self._names = list(names)

    def partitions(self) -> list[FilePartition]:
        """Returns one partition for each file."""
        return [FilePartition(part) for part in self._table.parts]

    def read(self, partition: FilePartition | None) -> Iterator[pa.RecordBatch]:
        """Returns the rows of one file; Spark passes None if there is no file."""
        if partition is not None:
            yield from self._table.batches(partition.part, self._names)


class StateSource(DataSource):  # type: ignore[misc]  # pyspark is not typed here
    """The data source of `spark.read.format("headrace_state")`. Spark pickles it after `schema`, so it keeps the table
    that it found there.
    """

    _found: StateTable | None = None

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def schema(self) -> StructType:
        """Returns the state's columns. Raises UserError with the candidate states, ExternalError."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self._table().schema())

    def reader(self, schema: StructType) -> StateReader:
        """Returns a reader of the columns in `schema`, which may be a subset."""
        table = self._table()
        there = table.schema().names
        for name in schema.names:
            if name not in there:
                hint = did_you_mean(name, tuple(there))
                raise UserError(f"the state has no column {name!r}", remedy=hint or f"it has: {', '.join(there)}")
        return StateReader(table, schema.names)

    def _table(self) -> StateTable:
        if self._found is None:
            self._found = _asked(self.options)
        return self._found


def register_state(spark: SparkSession) -> None:
    """Registers `headrace_state` in a session."""
    spark.dataSource.register(StateSource)


def _asked(options: Mapping[str, str]) -> StateTable:
    if unknown := [name for name in options if name.lower() not in _OPTIONS]:
        hint = did_you_mean(unknown[0], _OPTIONS)
        raise UserError(f"{NAME} has no option {unknown[0]!r}", remedy=hint or f"it has: {', '.join(_OPTIONS)}")
    path, epoch = options.get("path"), options.get("epoch")
    if not path:
        raise UserError(f"{NAME} needs a path", remedy='.option("path", <savepoint or job folder>)')
    if epoch is not None and not epoch.isdigit():
        raise UserError(f"epoch {epoch!r} is no number", remedy="leave it out for the newest checkpoint")
    return state_table(path, options.get("node"), options.get("state"), None if epoch is None else int(epoch))
