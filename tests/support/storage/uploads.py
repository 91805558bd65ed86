"""An uploader with its thread, for as long as a block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.worker.state.uploader import Uploader
from support.processes.running import WAIT_SECONDS


@contextmanager
def uploading(uploader: Uploader) -> Iterator[None]:
    """Runs the uploader; ends its thread with the block."""
    thread = threading.Thread(target=uploader.run)
    thread.start()
    try:
        yield
    finally:
        uploader.stop()
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive(), "the uploader did not stop"
