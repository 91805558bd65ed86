"""The result of a replay in a user's Spark session: the result rows of each sink as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from headrace.core.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.spark.driver.replay import ReplayOutcome
    from headrace.spark.launch.staged_rows import StagedRows


class ReplayResult(Mapping[str, "DataFrame"]):
    """Sink name -> its result rows. DataFrames read files that exist until `close`, which a `with` block calls.

    An updating sink has its final rows: the last one of each key, without deleted ones.
    """

    def __init__(self, spark: SparkSession, rows: StagedRows, *, published: bool) -> None:
        """Made by `headrace.spark.replay`. published: the rows are only in the sinks."""
        self._spark = spark
        self._rows = rows
        self._published = published
        self._closed = False

    def __getitem__(self, sink: str) -> DataFrame:
        """Returns the rows of a sink; those of dead letters are `<node>.bad`. Raises KeyError, UserError."""
        if sink not in self._rows.sinks:
            raise KeyError(sink)
        if self._published:
            raise UserError("the rows have been published: they are in the sinks", remedy="leave out publish=True")
        if self._closed:
            raise UserError("the result is closed: its files are deleted", remedy="read it before, or replay again")
        return self._rows.dataframe(sink, self._spark)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows.sinks)

    def __len__(self) -> int:
        return len(self._rows.sinks)

    def __repr__(self) -> str:
        made = self._outcome
        return f"<ReplayResult {made.job}: {made.rows_in:,} rows in, {made.rows_out:,} out; {', '.join(self)}>"

    @property
    def _outcome(self) -> ReplayOutcome:
        return self._rows.outcome

    @property
    def job(self) -> str:
        """The id of the replay's job."""
        return self._outcome.job

    @property
    def rows_in(self) -> int:
        """Rows read from the sources."""
        return self._outcome.rows_in

    @property
    def rows_out(self) -> int:
        """Rows sent to the sinks; each update counts."""
        return self._outcome.rows_out

    @property
    def late(self) -> int:
        """Rows that were late."""
        return self._outcome.late

    @property
    def bad(self) -> int:
        """Rows and messages that could not be processed."""
        return self._outcome.bad

    @property
    def savepoint(self) -> str | None:
        """Path of the savepoint at the end, if one was requested. It outlives the result."""
        return self._outcome.savepoint

    @property
    def counters(self) -> Mapping[str, Mapping[str, int]]:
        """Node -> counter -> total."""
        return self._outcome.counters

    def close(self) -> None:
        """Deletes the files of the rows. Idempotent."""
        if not self._closed:
            self._closed = True
            if not self._published:
                self._rows.delete()

    def __enter__(self) -> ReplayResult:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
