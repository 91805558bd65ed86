"""The wait of both sides, with the same resolution and patience."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.core.errors import ExternalError

WAIT_S, LOOK_S = 300.0, 0.2


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Returns once it is so. Raises ExternalError that names what did not happen."""
    until_s = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > until_s:
            raise ExternalError(f"after {WAIT_S:g} s: {what}")
        time.sleep(LOOK_S)
