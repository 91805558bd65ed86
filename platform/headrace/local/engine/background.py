"""One call that may block for long, beside a loop that must not. Knows nothing of what is called."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Runs `call` in a thread of its own, which does not keep the process alive; then calls `on_done` there."""

    def __init__(self, name: str, call: Callable[[], T], on_done: Callable[[], None]) -> None:
        self._call = call
        self._on_done = on_done
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except BaseException as error:  # the shell of a thread: `result` raises it
            self._error = error
        self._on_done()

    @property
    def done(self) -> bool:
        """Whether `result` does not wait."""
        return bool(self._results) or self._error is not None

    def result(self) -> T:
        """What the call gave; waits for it. Raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def wait(self, timeout_s: float) -> bool:
        """Waits for the call's end, or until the time is up; tells whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()
