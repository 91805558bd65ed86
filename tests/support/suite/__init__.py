"""How the suite runs as a whole: order of files, the broker of a run, hypothesis profiles, reports, traces of failures.

Each module is a pytest plugin that `tests/conftest.py` names. The *controller* is pytest's first process: with
pytest-xdist it hands out tests to the others, without it runs them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

BROKER_LOG = pytest.StashKey[Path]()
"""In a configuration's stash once something of this process has used the run's broker."""


def is_controller(config: pytest.Config) -> bool:
    """False in a test process of pytest-xdist."""
    return not hasattr(config, "workerinput")
