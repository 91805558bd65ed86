"""The parts of a manifest that every engine computes: totals, counters, names, a savepoint of the same cut. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.checkpoint.manifest import CommittableDocument, Manifest, OutputTotal, StateHandle
from headrace.core.text.digest_text import add_digests, digest_text, digest_value


def with_output(
    before: Mapping[str, OutputTotal], committables: Iterable[CommittableDocument]
) -> dict[str, OutputTotal]:
    """Returns sink -> its committed total, once these are committed, too. Sinks that hash no rows have no total."""
    total = dict(before)
    for item in committables:
        if item.digest:
            own = total.get(item.sink, OutputTotal())
            digest = add_digests(digest_value(own.digest), digest_value(item.digest))
            total[item.sink] = own.model_copy(update={"rows": own.rows + item.rows, "digest": digest_text(digest)})
    return total


def with_successors(
    before: Mapping[str, tuple[str, ...]], committables: Iterable[CommittableDocument]
) -> dict[str, tuple[str, ...]]:
    """Returns sink -> names that its writers may use once these are committed."""
    names = dict(before)
    for item in committables:
        if item.successor and item.successor not in names.get(item.sink, ()):
            names[item.sink] = (*names.get(item.sink, ()), item.successor)
    return names


def total_counters(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Returns node -> counter -> sum over the parts."""
    total: dict[str, dict[str, int]] = {}
    for part in parts:
        for node, own in part.items():
            sums = total.setdefault(node, {})
            for name, value in own.items():
                sums[name] = sums.get(name, 0) + value
    return total


def savepoint_of(manifest: Manifest, states: tuple[StateHandle, ...]) -> Manifest:
    """Returns the savepoint's own manifest: the same cut, with the files in its folder. Restoring it commits
    nothing.
    """
    return manifest.model_copy(update={"kind": "savepoint", "states": states, "committables": ()})
