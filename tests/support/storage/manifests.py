"""Manifests for tests that look at positions only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.checkpoint.manifest import Manifest
from headrace.core.source_state import SourceState, SplitState


def manifest(positions: Mapping[str, Sequence[tuple[str, int, int]]]) -> Manifest:
    """A savepoint of a job without state. positions: source -> (topic, partition, position)."""
    return Manifest(
        kind="savepoint",
        job="j",
        pipeline="p",
        epoch=1,
        attempt=1,
        created_at_ms=0,
        version="0",
        plan_hash="h",
        max_parallelism=128,
        parallelism={},
        nodes={},
        states=(),
        sources={name: SourceState(tuple(SplitState(*place) for place in own)) for name, own in positions.items()},
        splits={},
    )
