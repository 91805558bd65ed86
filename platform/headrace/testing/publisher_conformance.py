"""The contract of every sink that publishes staged rows, as tests for a connector's author, in addition to
`sink_conformance`.

    class TestMySinkPublishes(PublisherConformance):
        @pytest.fixture
        def sink(self) -> SinkUnderTest:
            config = MyConfig(..)
            return SinkUnderTest(config, SinkContext(.., schema=SCHEMA), visible=read_back)

`visible` reads the rows that others see. Each test is a job of its own, with external objects of its own. The suite
acts as the engine, which has decided on the rows and loses publishers: they die, or they are suspended and wake up
beside their successor, as `headrace.connect.publisher` defines. A sink that keeps the last row per key has `number` as
its key.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from headrace.connect.format import Encoder, FormatContext
from headrace.connect.publisher import Publisher, Share
from headrace.connect.registry import format_named
from headrace.connect.sink import SinkBatch
from headrace.core.errors import HeadraceError
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkUnderTest, by_number, made_rows, rows_of

PATIENCE_S = 120.0
"""How long published rows may take to become visible to others."""
ROWS = 23
"""Rows of a share."""
_BATCH_ROWS = 5


class _Publishing:
    """One try at a share: its publisher, and the staged rows, from the publisher's position on."""

    def __init__(
        self,
        sink: SinkUnderTest,
        rows: pl.DataFrame,
        *,
        epoch: int = 1,
        subtask: int = 0,
        attempt: int = 1,
        of: int = 1,
    ) -> None:
        config = sink.config
        context = replace(sink.context, subtask=subtask, attempt=attempt, parallelism=max(of, subtask + 1))
        publisher = config.open_publisher(context, Share(epoch, rows.height))
        assert publisher is not None, "a sink under this suite publishes"
        self.publisher: Publisher = publisher
        self._encoder: Encoder | None = None
        if config.takes == "messages" and context.format is not None:
            options = format_named(context.format).config.model_validate(context.format_options)
            self._encoder = options.open_encoder(context.schema, FormatContext(context.node, "sink"))
        self._rows = rows
        self.at = publisher.published

    def write(self, up_to: int | None = None) -> None:
        """Writes the share's rows up to this one, in small batches."""
        end = self._rows.height if up_to is None else up_to
        while self.at < end:
            part = self._rows[self.at : min(self.at + _BATCH_ROWS, end)]
            messages = None if self._encoder is None else self._encoder.encode(part.select(SCHEMA.names))
            self.publisher.write(SinkBatch(part, messages))
            self.at += part.height

    def finish(self) -> None:
        """Writes the rest and finishes."""
        self.write()
        self.publisher.finish()
        self.close()

    def wake_up(self) -> None:
        """Continues after a suspension as if nothing had happened: this may fail."""
        try:
            self.write()
            self.publisher.finish()
        except HeadraceError:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Closes twice: closing is idempotent."""
        self.publisher.close()
        self.publisher.close()


def _assert_visible(sink: SinkUnderTest, *ranges: tuple[int, int]) -> None:
    """Asserts that exactly these rows are visible, each once, value for value."""
    wanted = rows_of(*(made_rows(begin, end) for begin, end in sorted(ranges)))
    deadline = time.monotonic() + PATIENCE_S
    while (seen := by_number(sink.visible())) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    assert seen == wanted


def _is_prefix(seen: Rows) -> bool:
    return seen == rows_of(made_rows(0, len(seen)))


def _numbers_by_key(rows: Sequence[dict[str, object]]) -> dict[object, list[object]]:
    found: dict[object, list[object]] = {}
    for row in rows:
        found.setdefault(row["key"], []).append(row["number"])
    return found


class PublisherConformance:
    """The tests. Subclass it and define the fixture `sink`."""

    def test_a_share_is_published_whole(self, sink: SinkUnderTest) -> None:
        """No row is visible before; once the share is finished, all rows are."""
        publishing = _Publishing(sink, made_rows(0, ROWS))
        assert publishing.at == 0
        publishing.finish()
        _assert_visible(sink, (0, ROWS))

    def test_what_is_visible_before_the_end_is_a_prefix(self, sink: SinkUnderTest) -> None:
        """A publisher that is closed unfinished leaves the first rows, or none."""
        publishing = _Publishing(sink, made_rows(0, ROWS))
        publishing.write(13)
        publishing.close()
        deadline = time.monotonic() + PATIENCE_S
        # partitions of the external system may show published rows at different times
        while not _is_prefix(seen := by_number(sink.visible())) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert _is_prefix(seen)
        assert len(seen) <= 13

    @pytest.mark.parametrize("written", [0, 1, 7, 15, ROWS])
    def test_a_publisher_that_died_is_followed_by_another(self, sink: SinkUnderTest, written: int) -> None:
        """Each row is visible once, however many rows the first one had written."""
        first = _Publishing(sink, made_rows(0, ROWS))
        first.write(written)
        first.close()
        second = _Publishing(sink, made_rows(0, ROWS), attempt=2)
        assert second.at <= written
        second.finish()
        _assert_visible(sink, (0, ROWS))

    def test_many_die_one_after_another(self, sink: SinkUnderTest) -> None:
        """Each publisher gets a little further."""
        for attempt in range(1, 5):
            publishing = _Publishing(sink, made_rows(0, ROWS), attempt=attempt)
            publishing.write(max(attempt * 4, publishing.at))
            publishing.close()
        _Publishing(sink, made_rows(0, ROWS), attempt=5).finish()
        _assert_visible(sink, (0, ROWS))

    def test_a_newer_publisher_shuts_out_the_one_before(self, sink: SinkUnderTest) -> None:
        """The earlier publisher wakes up when the share is finished: it fails, or has no effect."""
        first = _Publishing(sink, made_rows(0, ROWS))
        first.write(9)
        _Publishing(sink, made_rows(0, ROWS), attempt=2).finish()
        _assert_visible(sink, (0, ROWS))
        first.wake_up()
        _assert_visible(sink, (0, ROWS))

    def test_two_publishers_at_once(self, sink: SinkUnderTest) -> None:
        """The earlier one wakes up while the newer one writes."""
        first = _Publishing(sink, made_rows(0, ROWS))
        first.write(9)
        second = _Publishing(sink, made_rows(0, ROWS), attempt=2)
        second.write(14)
        first.wake_up()
        second.finish()
        _assert_visible(sink, (0, ROWS))

    def test_one_that_had_written_all_is_shut_out_as_well(self, sink: SinkUnderTest) -> None:
        """The earlier publisher only lacks its `finish`."""
        first = _Publishing(sink, made_rows(0, ROWS))
        first.write()
        second = _Publishing(sink, made_rows(0, ROWS), attempt=2)
        first.wake_up()
        second.finish()
        _assert_visible(sink, (0, ROWS))

    def test_a_finished_share_is_not_published_again(self, sink: SinkUnderTest) -> None:
        """Publishing a finished share again has no effect."""
        for attempt in (1, 2, 3):
            _Publishing(sink, made_rows(0, ROWS), attempt=attempt).finish()
            _assert_visible(sink, (0, ROWS))

    def test_a_finished_share_stays_when_it_is_begun_again(self, sink: SinkUnderTest) -> None:
        """The publisher that begins it again dies before its end."""
        _Publishing(sink, made_rows(0, ROWS)).finish()
        again = _Publishing(sink, made_rows(0, ROWS), attempt=2)
        again.write(max(11, again.at))
        again.close()
        _assert_visible(sink, (0, ROWS))

    def test_epochs_follow_each_other(self, sink: SinkUnderTest) -> None:
        """Each epoch adds its rows; its position starts at 0."""
        for epoch in (1, 2, 5):
            rows = made_rows(epoch * 100, epoch * 100 + ROWS)
            died = _Publishing(sink, rows, epoch=epoch)
            assert died.at == 0
            died.write(11)
            died.close()
            _Publishing(sink, rows, epoch=epoch, attempt=2).finish()
        _assert_visible(sink, (100, 100 + ROWS), (200, 200 + ROWS), (500, 500 + ROWS))

    def test_an_earlier_epoch_stays_published(self, sink: SinkUnderTest) -> None:
        """Publishing an earlier epoch late has no effect."""
        for epoch in (1, 2, 1):
            _Publishing(sink, made_rows(epoch * 100, epoch * 100 + ROWS), epoch=epoch).finish()
        _assert_visible(sink, (100, 100 + ROWS), (200, 200 + ROWS))

    def test_shares_do_not_disturb_each_other(self, sink: SinkUnderTest) -> None:
        """Several shares at once; one publisher dies and is replaced."""
        shares = [made_rows(subtask * 100, subtask * 100 + ROWS) for subtask in range(3)]
        first = [_Publishing(sink, rows, subtask=at, of=3) for at, rows in enumerate(shares)]
        for publishing in first:
            publishing.write(8)
        first[1].close()
        again = _Publishing(sink, shares[1], subtask=1, of=3, attempt=2)
        first[0].finish()
        again.write(12)
        first[2].finish()
        again.finish()
        _assert_visible(sink, (0, ROWS), (100, 100 + ROWS), (200, 200 + ROWS))

    def test_sinks_do_not_disturb_each_other(self, sink: SinkUnderTest) -> None:
        """Two sinks of a job write to the same external system."""
        other = replace(sink, context=replace(sink.context, node=f"{sink.context.node}_other"))
        ours, theirs = _Publishing(sink, made_rows(0, ROWS)), _Publishing(other, made_rows(100, 100 + ROWS))
        ours.write(8)
        theirs.write(9)
        ours.finish()
        theirs.finish()
        _Publishing(other, made_rows(100, 100 + ROWS), attempt=2).finish()
        _assert_visible(sink, (0, ROWS), (100, 100 + ROWS))

    def test_an_empty_share_leaves_nothing(self, sink: SinkUnderTest) -> None:
        """An empty share is finished at once."""
        _Publishing(sink, made_rows(0, 0)).finish()
        _assert_visible(sink)
        _Publishing(sink, made_rows(0, 3), epoch=2).finish()
        _assert_visible(sink, (0, 3))

    def test_order_of_a_key_is_kept(self, sink: SinkUnderTest) -> None:
        """The order holds over batches, deaths and epochs."""
        for epoch in (1, 2):
            rows = made_rows(epoch * 100, epoch * 100 + ROWS)
            for attempt, written in enumerate((6, 17), start=1):
                died = _Publishing(sink, rows, epoch=epoch, attempt=attempt)
                died.write(max(written, died.at))
                died.close()
            _Publishing(sink, rows, epoch=epoch, attempt=3).finish()
        _assert_visible(sink, (100, 100 + ROWS), (200, 200 + ROWS))
        for numbers in _numbers_by_key(sink.visible()).values():
            assert numbers == sorted(numbers, key=str)
