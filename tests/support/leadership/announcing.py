"""A candidate that was elected, and announces what a test tells it."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.leadership.elector import Elected, ElectorEvent
from headrace.leadership.file_election import FileElector
from support.patience import WAIT_SECONDS


@contextmanager
def announcing(folder: Path) -> Iterator[FileElector]:
    """In the election of a folder."""
    elector, events = FileElector(folder, 60_000), queue.Queue[ElectorEvent]()
    elector.campaign(events.put)
    try:
        assert events.get(timeout=WAIT_SECONDS) == Elected()
        yield elector
    finally:
        elector.close()
