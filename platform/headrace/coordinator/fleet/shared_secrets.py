"""Secrets that every worker of a cluster has in a file, and that are replaced while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping


class SharedSecrets:
    """The newest content of each secret, by name. Thread-safe. Empty until the first one is replaced: workers are
    started with secrets of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, bytes] = {}
        self._on_replaced: Callable[[], None] | None = None

    def replace(self, secrets: Mapping[str, bytes]) -> None:
        """Replaces some of them, in the files of all workers."""
        with self._lock:
            self._newest.update(secrets)
            on_replaced = self._on_replaced
        if on_replaced is not None:
            on_replaced()

    def newest(self) -> Mapping[str, bytes]:
        """Those that were replaced, as they are now."""
        with self._lock:
            return dict(self._newest)

    def watch(self, on_replaced: Callable[[], None] | None) -> None:
        """Has this called after each replacement, in the thread of that one; None: nothing any more."""
        with self._lock:
            self._on_replaced = on_replaced
