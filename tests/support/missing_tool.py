"""What a test does that needs a tool which this machine has not."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(reason: str) -> NoReturn:
    """Skips the test; fails it in continuous integration, which has to have every tool."""
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
