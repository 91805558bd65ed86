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
    def held_at(self, point: str) -> Iterator[int]:
        """Somebody stands at the point inside, and comes no further; gives its pid. Afterwards everybody passes."""
        wanted, at = self.folder / f"stop-at-{point}", self.folder / f"at-{point}"
        wanted.touch()
        try:
            wait_until(lambda: at.exists() and bool(at.read_text()), f"somebody comes to {point}", 60)
            yield int(at.read_text())
        finally:
            wanted.unlink()
            at.unlink(missing_ok=True)

    def ask(self, point: str) -> None:
        """Who comes there next stops; `held_at` waits for it."""
        (self.folder / f"stop-at-{point}").touch()
