"""A source that reads splits that were resolved before, and publishes no positions, so that two engines read the same
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from headrace.connect.source import Enumerator, SourceConfig, SourceContext, Split
from headrace.local.inspection.quiet_source import QuietSource


class PinnedSource(QuietSource):
    """Behaves like the inner source, except for its splits."""

    splits: tuple[Split, ...]

    @property
    def bounded(self) -> bool:
        """Whether every split has a stop."""
        return all(split.stop is not None for split in self.splits)

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """Returns an enumerator of these splits."""
        return _Pinned(self.splits)


class PinnedStampedSource(PinnedSource):
    """A PinnedSource whose record timestamps may be the event time."""

    record_time: ClassVar[bool] = True


def pinned_source(config: SourceConfig, splits: Sequence[Split]) -> SourceConfig:
    """Returns the source, bound to these splits."""
    kind = PinnedStampedSource if type(config).record_time else PinnedSource
    return kind(inner=config, splits=tuple(splits))


class _Pinned:
    def __init__(self, splits: tuple[Split, ...]) -> None:
        self._splits = splits

    def discover(self) -> Sequence[Split]:
        """Returns the same splits on every call."""
        return self._splits

    @property
    def discovery_interval_ms(self) -> int | None:
        """None: never again."""
        return None

    def close(self) -> None:
        """Does nothing."""
