"""What a source's enumerator found when it was opened."""

from __future__ import annotations

from headrace.checkpoint.manifest import Document, SplitDocument


class DiscoveredSource(Document):
    """The splits of one source, and whether to ask again.

    splits        all of them, those that were known before included
    interval_ms   how often to ask for new ones; None: never
    final         no more will come
    """

    splits: tuple[SplitDocument, ...]
    interval_ms: int | None
    final: bool
