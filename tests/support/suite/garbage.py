"""Keeps what collecting has made away from the garbage collector: thousands of tests and all modules live to the end,
and each full collection would walk them.
"""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """What there is now is never garbage."""
    gc.collect()
    gc.freeze()
