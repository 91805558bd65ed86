"""Where processes of a test cluster stop, through the connector `stopping_kafka` (`third_party/stopping_kafka`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.running import wait_until


class StoppingPoints:
    """The test's side: a folder in which files say where to stop, and who stands there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    @contextmanager
    def held_at(self, point: str, seconds: float = 60) -> Iterator[int]:
        """Somebody stands at the point inside, and comes no further; gives its pid. Afterwards everybody passes."""
        at = self.folder / f"at-{point}"
        self.ask(point)
        try:
            wait_until(lambda: self.is_somebody_at(point), f"somebody comes to {point}", seconds)
            yield int(at.read_text())
        finally:
            self.let_go(point)
            at.unlink(missing_ok=True)

    def let_go(self, point: str) -> None:
        """Whoever stands there passes, inside of `held_at`; and so does everybody else."""
        (self.folder / f"stop-at-{point}").unlink(missing_ok=True)

    def ask(self, point: str) -> None:
        """Who comes there next stops; `held_at` waits for it."""
        (self.folder / f"stop-at-{point}").touch()

    def is_somebody_at(self, point: str) -> bool:
        """Whether a process stands there."""
        at = self.folder / f"at-{point}"
        return at.exists() and bool(at.read_text())
