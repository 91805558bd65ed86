"""The result of opening a source's enumerator."""

from __future__ import annotations

from headrace.checkpoint.manifest import Document, SplitDocument


class DiscoveredSource(Document):
    """The splits of one source, and when to discover again.

    splits        all splits, including those that were known before
    interval_ms   time between discoveries; None: no discovery
    final         no more splits will come
    """

    splits: tuple[SplitDocument, ...]
    interval_ms: int | None
    final: bool
