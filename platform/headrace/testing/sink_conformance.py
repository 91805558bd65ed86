"""The contract of every sink, as tests for a connector's author.

    class TestMySink(SinkConformance):
        @pytest.fixture
        def sink(self) -> SinkUnderTest:
            return SinkUnderTest(MyConfig(..), SinkContext(.., schema=SCHEMA), visible=read_back)

The rows written have the columns of `SCHEMA`. `visible` reads the rows that others see now, as mappings, in an order
that keeps the order of each key. The suite is independent of the connector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from headrace.connect.format import Encoder, FormatContext
from headrace.connect.registry import format_named
from headrace.connect.sink import Committable, CommittedWriter, SinkBatch, SinkConfig, SinkContext, Writer
from headrace.core.batch import TS
from headrace.core.errors import HeadraceError
from headrace.core.types import schema_of

SCHEMA = schema_of({"key": "string not null", "number": "int64 not null", "text": "string", "share": "float64"})
"""Columns of the rows that the suite writes."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SinkUnderTest:
    """A sink, a function that reads its published rows, and, if possible, the same sink with its external system
    broken.
    """

    config: SinkConfig
    context: SinkContext
    visible: Callable[[], Rows]
    broken: SinkConfig | None = None


def made_rows(begin: int, end: int) -> pl.DataFrame:
    """Returns rows [begin, end): five keys, increasing numbers, texts with quotes, line breaks and other scripts, and
    NULLs.
    """
    texts = ['plain "quoted"', "comma, and tab\t", None, "Ελλάδα 日本", ""]
    return pl.DataFrame(
        {
            "key": [f"k{number % 5}" for number in range(begin, end)],
            "number": list(range(begin, end)),
            "text": [texts[number % len(texts)] for number in range(begin, end)],
            "share": [None if number % 7 == 0 else number / 8 for number in range(begin, end)],
            TS: [1_700_000_000_000 + number for number in range(begin, end)],
        },
        schema=SCHEMA.polars() | {TS: pl.Int64},
    )


class Feeder:
    """A writer behind the encoder that the engine would use."""

    def __init__(self, config: SinkConfig, context: SinkContext) -> None:
        self.writer: Writer = config.open_writer(context)
        self._encoder: Encoder | None = None
        if config.takes == "messages" and context.format is not None:
            options = format_named(context.format).config.model_validate(context.format_options)
            self._encoder = options.open_encoder(context.schema, FormatContext(context.node, "sink"))

    def write(self, rows: pl.DataFrame) -> None:
        """Writes rows with the columns of `made_rows`."""
        messages = None if self._encoder is None else self._encoder.encode(rows.select(SCHEMA.names))
        self.writer.write(SinkBatch(rows, messages))

    def flush(self, epoch: int) -> list[Committable]:
        """Flushes, as at a barrier."""
        return list(self.writer.flush(epoch))

    def committed(self, epoch: int, committables: Sequence[Committable]) -> None:
        """Notifies the writer, if it is a CommittedWriter, that the epoch is visible."""
        if isinstance(self.writer, CommittedWriter):
            self.writer.committed(epoch, {each.name: each.successor for each in committables if each.successor})

    def close(self) -> None:
        """Closes twice: closing is idempotent."""
        self.writer.close()
        self.writer.close()


class _Checkpointed:
    """A feeder whose flush is a whole checkpoint."""

    def __init__(self, sink: SinkUnderTest, config: SinkConfig | None = None, *, subtask: int = 0, of: int = 1) -> None:
        config = config or sink.config
        context = replace(sink.context, subtask=subtask, parallelism=of)
        self._feeder = Feeder(config, context)
        self._committer = config.open_committer(context)
        self.write = self._feeder.write

    def flush(self, epoch: int) -> None:
        """Flushes and commits."""
        committables: Sequence[Committable] = self._feeder.flush(epoch)
        if self._committer is not None:
            committables = self._committer.describe(committables)
            assert not self._committer.commit(committables)
            self._feeder.committed(epoch, committables)

    def close(self) -> None:
        self._feeder.close()
        if self._committer is not None:
            self._committer.close()
            self._committer.close()


def by_number(rows: Rows) -> Rows:
    """Returns rows in the order of their numbers."""
    return sorted(rows, key=lambda row: int(row["number"]))


def rows_of(*frames: pl.DataFrame) -> Rows:
    """Returns the rows of `made_rows` frames as a reader sees them."""
    return [row for frame in frames for row in frame.select(SCHEMA.names).to_dicts()]


class SinkConformance:
    """The tests. Subclass it and define the fixture `sink`."""

    def test_flush_makes_rows_visible(self, sink: SinkUnderTest) -> None:
        """After a flush all rows are visible, each once, value for value."""
        rows = made_rows(0, 23)
        feeder = _Checkpointed(sink)
        feeder.write(rows[:10])
        feeder.write(rows[10:11])
        feeder.write(rows[11:])
        feeder.flush(1)
        seen = sink.visible()
        feeder.close()
        assert by_number(seen) == rows_of(rows)

    def test_epochs_follow_each_other(self, sink: SinkUnderTest) -> None:
        """Every flush adds its rows and changes nothing of those before."""
        feeder = _Checkpointed(sink)
        for epoch in (1, 2, 3):
            feeder.write(made_rows(epoch * 10, epoch * 10 + 4))
            feeder.flush(epoch)
            expected = rows_of(*(made_rows(done * 10, done * 10 + 4) for done in range(1, epoch + 1)))
            assert by_number(sink.visible()) == expected
        feeder.close()

    def test_order_of_a_key_is_kept(self, sink: SinkUnderTest) -> None:
        """Rows of one key are visible in the order of writing, over batches and epochs."""
        feeder = _Checkpointed(sink)
        for epoch in range(1, 5):
            for begin in range(epoch * 100, epoch * 100 + 60, 20):
                feeder.write(made_rows(begin, begin + 20))
            feeder.flush(epoch)
        seen = sink.visible()
        feeder.close()
        assert len(seen) == 4 * 60
        for key in {row["key"] for row in seen}:
            numbers = [row["number"] for row in seen if row["key"] == key]
            assert numbers == sorted(numbers)

    def test_an_empty_flush_publishes_nothing(self, sink: SinkUnderTest) -> None:
        """Neither an epoch without rows nor an empty batch leaves a trace."""
        feeder = _Checkpointed(sink)
        feeder.flush(1)
        feeder.write(made_rows(0, 0))
        feeder.flush(2)
        feeder.write(made_rows(0, 3))
        feeder.flush(3)
        feeder.flush(4)
        seen = sink.visible()
        feeder.close()
        assert by_number(seen) == rows_of(made_rows(0, 3))

    def test_close_without_flush_publishes_nothing_broken(self, sink: SinkUnderTest) -> None:
        """Rows that were never flushed are visible only as whole rows; flushed rows stay."""
        feeder = _Checkpointed(sink)
        feeder.write(made_rows(0, 5))
        feeder.flush(1)
        feeder.write(made_rows(5, 10))
        feeder.close()
        seen = by_number(sink.visible())
        assert seen[:5] == rows_of(made_rows(0, 5))
        assert all(row in rows_of(made_rows(5, 10)) for row in seen[5:])

    def test_subtasks_do_not_disturb_each_other(self, sink: SinkUnderTest) -> None:
        """Two writers of one sink, flushed at different times."""
        first, second = _Checkpointed(sink, subtask=0, of=2), _Checkpointed(sink, subtask=1, of=2)
        first.write(made_rows(0, 5))
        second.write(made_rows(5, 10))
        first.flush(1)
        second.flush(1)
        seen = sink.visible()
        first.close()
        second.close()
        assert by_number(seen) == rows_of(made_rows(0, 10))

    def test_a_failure_surfaces(self, sink: SinkUnderTest) -> None:
        """If the external system is broken, `prepare`, opening, `write` or `flush` raises; rows are never lost
        silently.
        """
        if sink.broken is None:
            return
        error: HeadraceError | None = None
        try:
            sink.broken.prepare(sink.context)
            feeder = _Checkpointed(sink, sink.broken)
            feeder.write(made_rows(0, 5))
            feeder.flush(1)
        except HeadraceError as raised:
            error = raised
        assert error is not None, "the broken sink took rows as if nothing were wrong"
        assert str(error)
