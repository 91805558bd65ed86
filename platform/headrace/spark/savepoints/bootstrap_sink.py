"""The Spark tasks of a bootstrap: assign rows to shares, and write the state of each share.

A task's handles travel to the driver as one object in the savepoint's folder, which the commit of the Spark write puts
there. Files of failed attempts are in no handle, so they do not exist for the savepoint. An error in the user's rows
does not fail the task, because Spark would only retry it: it travels in the same way.

Imports pyspark: only `headrace.spark.savepoints.bootstrapping` and Spark's own processes import this module.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl
import pyarrow as pa
from pydantic import TypeAdapter
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.checkpoint.manifest import Document, StateHandle
from headrace.checkpoint.savepoints.bootstrap import Share, share_numbers, write_share
from headrace.checkpoint.stores.opening import open_folder
from headrace.core.errors import UserError
from headrace.operators.bootstrap.state import GivenState
from headrace.operators.operator import OperatorConfig

NAME = "headrace_bootstrap"
SHARE = "__share"
"""Column with the share of a row."""


class WrittenShares(Document):
    """The state that the tasks of one step have written, or the errors in their rows."""

    handles: tuple[StateHandle, ...] = ()
    wrong: tuple[tuple[str, str | None], ...] = ()


WRITTEN = TypeAdapter(WrittenShares)


@dataclass(frozen=True, slots=True)
class ShareOrder:
    """The order to the tasks of one step. report: the object for the handles."""

    config: OperatorConfig
    shares: tuple[Share, ...]
    folder: str
    report: str

    def text(self) -> str:
        """Returns the order as an option of a Spark write. It contains no secrets."""
        return base64.b64encode(pickle.dumps(self)).decode("ascii")

    @staticmethod
    def of(text: str) -> ShareOrder:
        """The inverse of `text`."""
        order = pickle.loads(base64.b64decode(text))
        assert isinstance(order, ShareOrder), "the option is what our driver wrote"
        return order


class SharesMessage(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed here
    """The result of one task."""

    def __init__(self, written: WrittenShares) -> None:
        self.written = written


class BootstrapWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is not typed here
    """Writes the state of the shares whose rows a task has."""

    def __init__(self, order: ShareOrder) -> None:
        self._order = order

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SharesMessage:
        """Writes the shares of one task, which has all rows of a share and holds them in memory."""
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return SharesMessage(WrittenShares())
        rows = pl.from_arrow(pa.Table.from_batches(batches))
        assert isinstance(rows, pl.DataFrame), "tables become frames"
        handles: list[StateHandle] = []
        try:
            for share, part in _by_share(rows, self._order.shares):
                handles += write_share(_given(self._order.config), part, share, open_folder(self._order.folder))
        except UserError as error:
            return SharesMessage(WrittenShares(wrong=((error.message, error.remedy),)))
        return SharesMessage(WrittenShares(handles=tuple(handles)))

    def commit(self, messages: Sequence[SharesMessage | None]) -> None:
        """Writes the results of all tasks for the driver."""
        parts = [message.written for message in messages if message is not None]
        written = WrittenShares(
            handles=tuple(handle for part in parts for handle in part.handles),
            wrong=tuple(problem for part in parts for problem in part.wrong),
        )
        open_folder(self._order.folder).write(self._order.report, WRITTEN.dump_json(written))

    def abort(self, messages: Sequence[SharesMessage | None]) -> None:
        """Does nothing: the driver deletes the folder."""


class BootstrapSink(DataSource):  # type: ignore[misc]  # pyspark is not typed here
    """The data source that the driver writes each step's rows to."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> BootstrapWriter:  # noqa: FBT001 - Spark's signature
        """Returns the writer of one task."""
        return BootstrapWriter(ShareOrder.of(self.options["order"]))


def numbering(config: OperatorConfig, shares: int, max_parallelism: int) -> Callable[[pa.Array], pa.Array]:
    """Returns a function for Spark: an array of structs with the key columns -> the share of each."""

    def numbers(keys: pa.Array) -> pa.Array:
        frame = pl.DataFrame(pl.from_arrow(pa.RecordBatch.from_struct_array(keys)))
        return share_numbers(_given(config), frame, shares, max_parallelism).to_arrow()

    return numbers


def _by_share(rows: pl.DataFrame, shares: Sequence[Share]) -> Iterable[tuple[Share, pl.DataFrame]]:
    for (number,), part in rows.partition_by(SHARE, include_key=False, as_dict=True).items():
        yield shares[number], part


@lru_cache(maxsize=8)
def _given(config: OperatorConfig) -> GivenState:
    given = config.given_state()
    assert given is not None, "only steps that take state are bootstrapped"
    return given
