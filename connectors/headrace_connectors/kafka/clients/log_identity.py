"""Compares the identities of topics: cluster id and topic id, as `<cluster id>/<topic id>`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.connect.source import Split


def replaced_topics(known: Sequence[Split], now: Mapping[str, str], brokers: str) -> dict[str, str]:
    """Topic -> what stands in its place, for topics of `known` whose log is another one in `now`."""
    return {
        split.id.topic: _difference(split.identity, identity, brokers)
        for split in known
        if split.identity and (identity := now.get(split.id.topic, "")) and identity != split.identity
    }


def _difference(before: str, now: str, brokers: str) -> str:
    (old_cluster, _, old_topic), (cluster, _, topic) = before.partition("/"), now.partition("/")
    if old_cluster != cluster:
        return f"{brokers} is cluster {cluster} now, and was {old_cluster}"
    return f"it was deleted and made anew (topic id {topic}, before {old_topic})"
