"""An enumerator that continues from splits resolved before: every source has one after a restart.

Enumerators with `restore` do it themselves. For the others, known splits take precedence over discovered ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.connect.source import Enumerator, RestorableEnumerator, Split
from headrace.core.errors import UserError


def restored(enumerator: Enumerator, source: str, known: Sequence[Split], *, foreign: bool = False) -> Enumerator:
    """The enumerator of node `source`, continuing from `known`, as `RestorableEnumerator.restore` specifies."""
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
