"""What was done and seen, with seconds since the beginning; several threads tell it."""

from __future__ import annotations

import sys
import threading
import time


class Story:
    """Lines, in the order of time. `aloud`: each is printed as it is told."""

    def __init__(self, *, aloud: bool = False) -> None:
        self._begun = time.monotonic()
        self._aloud = aloud
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self.lines: list[str] = []

    def tell(self, what: str) -> None:
        """One line."""
        line = f"{time.monotonic() - self._begun:7.1f} s  {what}"
        with self._lock:
            self.lines.append(line)
            if self._aloud:
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()

    def tell_once(self, what: str) -> None:
        """One line, if it has not been told so yet."""
        if what not in self._said:
            self._said.add(what)
            self.tell(what)
