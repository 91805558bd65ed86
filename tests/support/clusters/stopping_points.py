"""Where processes of a test cluster stop, through the connector `stopping_kafka` (`third_party/stopping_kafka`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.clusters.worker_process import is_running
from support.processes.running import WAIT_SECONDS, wait_until


class StoppingPoints:
    """The test's side: a folder in which files say where to stop, and who stands there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._wishes: dict[str, str] = {}
        folder.mkdir()

    @contextmanager
    def held_at(self, point: str, seconds: float = WAIT_SECONDS) -> Iterator[int]:
        """Somebody stands at the point inside, and comes no further; gives its pid. Afterwards everybody passes."""
        self.ask(point)
        try:
            wait_until(lambda: self._stands_at(point), f"somebody comes to {point}", seconds)
            yield int(self._at(point).read_text())
        finally:
            self.let_go(point)

    def let_go(self, point: str) -> None:
        """Whoever stands there passes, inside of `held_at`; and so does everybody else."""
        (self.folder / f"stop-at-{point}").unlink(missing_ok=True)

    def ask(self, point: str) -> None:
        """Who comes there next stops; `held_at` waits for it."""
        if not (self.folder / f"stop-at-{point}").exists():
            self._wishes[point] = uuid.uuid4().hex
            wish = self.folder / "wish"
            wish.write_text(self._wishes[point])
            wish.rename(self.folder / f"stop-at-{point}")

    def is_somebody_at(self, point: str) -> bool:
        """Whether a process stands there."""
        at = self._at(point)
        return at.exists() and bool(at.read_text())

    def _stands_at(self, point: str) -> bool:
        """Whoever has stopped and died since makes place for another one."""
        if not self.is_somebody_at(point):
            return False
        if is_running(int(self._at(point).read_text())):
            return True
        self.let_go(point)
        self.ask(point)
        return False

    def _at(self, point: str) -> Path:
        """Who stands there because of the newest wish: one who meant to stop for an older one may come late."""
        return self.folder / f"at-{point}-{self._wishes[point]}"
