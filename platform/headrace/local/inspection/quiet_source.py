"""A source as it is, but for one thing: its readers publish no positions. Looking at rows leaves no trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import SerializeAsAny

from headrace.connect.source import Enumerator, Polled, Reader, SourceConfig, SourceContext, Split, SplitId


class QuietSource(SourceConfig):
    """Everything is the inner source's, except `commit`."""

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
        """The inner source's."""
        return self.inner.open_enumerator(context)

    def open_reader(self, context: SourceContext) -> Reader:
        """The inner source's, without `commit`."""
        return _QuietReader(self.inner.open_reader(context))


class QuietStampedSource(QuietSource):
    """The same for a source whose record timestamps serve as event time."""

    record_time: ClassVar[bool] = True


def quiet_source(config: SourceConfig) -> SourceConfig:
    """The source without a voice."""
    kind = QuietStampedSource if type(config).record_time else QuietSource
    return kind(inner=config)


class _QuietReader:
    def __init__(self, inner: Reader) -> None:
        self._inner = inner

    def assign(self, splits: Sequence[Split]) -> None:
        """Hands on."""
        self._inner.assign(splits)

    def poll(self, timeout_ms: int) -> Polled:
        """Hands on."""
        return self._inner.poll(timeout_ms)

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Hands on."""
        self._inner.pause(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Hands on."""
        self._inner.resume(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Keeps it to itself."""

    def close(self) -> None:
        """Hands on."""
        self._inner.close()
