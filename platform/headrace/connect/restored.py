"""An enumerator that continues from splits resolved before: every source has one after a restart.

Enumerators with `restore` do it themselves. For the others, known splits take precedence over discovered ones. Splits
of a log that another one has replaced are refused here, for every engine, unless the user has accepted the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headrace.connect.source import Enumerator, IdentifyingEnumerator, RestorableEnumerator, Split
from headrace.core.errors import UserError


def restored(
    enumerator: Enumerator,
    source: str,
    known: Sequence[Split],
    *,
    foreign: bool = False,
    accepted: Collection[str] = (),
) -> Enumerator:
    """The enumerator of node `source`, continuing from `known`, as `RestorableEnumerator.restore` specifies.

    accepted   topics that may differ from those of `known`: they begin as new ones. Raises UserError for the others
    """
    if isinstance(enumerator, IdentifyingEnumerator):
        others = enumerator.replaced(known)
        if refused := {topic: text for topic, text in others.items() if topic not in accepted}:
            raise replaced(source, refused)
        known = [split for split in known if split.id.topic not in others]
        if not known:
            return enumerator
    if isinstance(enumerator, RestorableEnumerator):
        enumerator.restore(known, foreign=foreign)
        return enumerator
    return _Restored(enumerator, source, known, foreign=foreign)


def gone(source: str, missing: Sequence[Split]) -> UserError:
    """The error for splits of another job that the source does not have."""
    listed = ", ".join(str(split.id) for split in missing)
    return UserError(
        f"source {source!r} is restored with positions of {listed}, which it does not have",
        remedy="read what the savepoint's job read, or give the source another name: it then starts anew",
    )


def replaced(source: str, others: Mapping[str, str]) -> UserError:
    """The error for topics that are not those whose positions a source has. others: topic -> what stands there now."""
    listed = "; ".join(f"{topic}: {text}" for topic, text in sorted(others.items()))
    options = " ".join(f"--accept-new-topic {topic}" for topic in sorted(others))
    return UserError(
        f"source {source!r} has positions in another log than the one that is there now: {listed}",
        remedy="its positions mean nothing there. Correct the address or bring the old topic back; or give "
        f"{options} to run, submit, upgrade or replay, which begins the new topic at its start",
    )


class _Restored:
    def __init__(self, inner: Enumerator, source: str, known: Sequence[Split], *, foreign: bool) -> None:
        self._inner = inner
        self._source = source
        self._known = {split.id: split for split in known}
        self._foreign = foreign

    @property
    def discovery_interval_ms(self) -> int | None:
        """That of the inner enumerator."""
        return self._inner.discovery_interval_ms

    def discover(self) -> Sequence[Split]:
        """The known splits as recorded, and further splits of the inner enumerator."""
        discovered = {split.id: split for split in self._inner.discover()}
        if self._foreign:
            self._foreign = False
            if missing := [split for name, split in self._known.items() if name not in discovered]:
                raise gone(self._source, missing)
            self._known = {name: replace(split, stop=discovered[name].stop) for name, split in self._known.items()}
        self._known = discovered | self._known
        return [self._known[name] for name in sorted(self._known)]

    def close(self) -> None:
        """Closes the inner enumerator."""
        self._inner.close()
