"""What Spark tasks do for a bootstrap: they give rows their share, and write the state of each share.

A task's handles go to the driver as one object of the savepoint's folder, which the commit of the Spark write puts
there: files of tries that Spark gave up are in no handle, so they do not exist. What is wrong with the user's rows is
no failed task, which Spark would only try again: it travels in the same way.

Imports pyspark: nothing but `headrace.spark.savepoints.bootstrapping` and Spark's own processes import this module.
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
from headrace.operators.aggregation.aggregate import AggregateConfig
from headrace.operators.given.state import GivenState

NAME = "headrace_bootstrap"
SHARE = "__share"
"""Column of the share that a row belongs to."""


class WrittenShares(Document):
    """What the tasks of one step have written, or what is wrong with their rows."""

    handles: tuple[StateHandle, ...] = ()
    wrong: tuple[tuple[str, str | None], ...] = ()


WRITTEN = TypeAdapter(WrittenShares)


@dataclass(frozen=True, slots=True)
class ShareOrder:
    """What the tasks of one step need to know. report: the object that the handles go to."""

    config: AggregateConfig
    shares: tuple[Share, ...]
    folder: str
    report: str

    def text(self) -> str:
        """As an option of a Spark write: it holds no secrets."""
        return base64.b64encode(pickle.dumps(self)).decode("ascii")

    @staticmethod
    def of(text: str) -> ShareOrder:
        """The inverse of `text`."""
        order = pickle.loads(base64.b64decode(text))
        assert isinstance(order, ShareOrder), "the option is what our driver wrote"
        return order


class SharesMessage(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed here
    """What one task has written."""

    def __init__(self, written: WrittenShares) -> None:
        self.written = written


class BootstrapWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark is not typed here
    """Writes the state of the shares that a task has rows of."""

    def __init__(self, order: ShareOrder) -> None:
        self._order = order

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SharesMessage:
        """All rows of a share are in one task, which holds them in memory."""
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
        """Hands over what all tasks have written."""
        parts = [message.written for message in messages if message is not None]
        written = WrittenShares(
            handles=tuple(handle for part in parts for handle in part.handles),
            wrong=tuple(problem for part in parts for problem in part.wrong),
        )
        open_folder(self._order.folder).write(self._order.report, WRITTEN.dump_json(written))

    def abort(self, messages: Sequence[SharesMessage | None]) -> None:
        """Leaves what was written to the driver, which deletes the folder."""


class BootstrapSink(DataSource):  # type: ignore[misc]  # pyspark is not typed here
    """What the driver writes each step's rows to."""

    @classmethod
    def name(cls) -> str:
        """How it is asked for."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> BootstrapWriter:  # noqa: FBT001 - Spark's signature
        """The writer of one task."""
        return BootstrapWriter(ShareOrder.of(self.options["order"]))


def numbering(config: AggregateConfig, shares: int, max_parallelism: int) -> Callable[[pa.Array], pa.Array]:
    """A function for Spark: an array of structs with the key columns -> the share of each."""

    def numbers(keys: pa.Array) -> pa.Array:
        frame = pl.DataFrame(pl.from_arrow(pa.RecordBatch.from_struct_array(keys)))
        return share_numbers(_given(config), frame, shares, max_parallelism).to_arrow()

    return numbers


def _by_share(rows: pl.DataFrame, shares: Sequence[Share]) -> Iterable[tuple[Share, pl.DataFrame]]:
    for (number,), part in rows.partition_by(SHARE, include_key=False, as_dict=True).items():
        yield shares[number], part


@lru_cache(maxsize=8)
def _given(config: AggregateConfig) -> GivenState:
    return GivenState(config)
