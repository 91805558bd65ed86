"""A source whose readers publish no positions, so that reading changes nothing outside. Otherwise it is unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import SerializeAsAny

from headrace.connect.source import Enumerator, Polled, Reader, SourceConfig, SourceContext, Split, SplitId


class QuietSource(SourceConfig):
    """Behaves like the inner source, except for `commit`."""

    inner: SerializeAsAny[SourceConfig]

    @property
    def bounded(self) -> bool:
        """As the inner source."""
        return self.inner.bounded

    @property
    def metadata_columns(self) -> Mapping[str, str]:
        """As the inner source."""
        return self.inner.metadata_columns

    def describe_position(self, split: SplitId, position: int) -> str:
        """As the inner source."""
        return self.inner.describe_position(split, position)

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """The inner source's enumerator."""
        return self.inner.open_enumerator(context)

    def open_reader(self, context: SourceContext) -> Reader:
        """The inner source's reader, without `commit`."""
        return _QuietReader(self.inner.open_reader(context))


class QuietStampedSource(QuietSource):
    """A QuietSource whose record timestamps may be the event time."""

    record_time: ClassVar[bool] = True


def quiet_source(config: SourceConfig) -> SourceConfig:
    """Returns the source without `commit`."""
    kind = QuietStampedSource if type(config).record_time else QuietSource
    return kind(inner=config)


class _QuietReader:
    def __init__(self, inner: Reader) -> None:
        self._inner = inner

    def assign(self, splits: Sequence[Split]) -> None:
        """Delegates."""
        self._inner.assign(splits)

    def poll(self, timeout_ms: int) -> Polled:
        """Delegates."""
        return self._inner.poll(timeout_ms)

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Delegates."""
        self._inner.pause(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Delegates."""
        self._inner.resume(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Delegates."""
        self._inner.close()
