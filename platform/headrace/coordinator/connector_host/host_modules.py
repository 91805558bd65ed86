"""The imports of a coordinator's template beside the host's program: the live halves that a host opens.

A coordinator forks a host for each job, and hosts share the memory of what the template has imported. `headrace run`,
which has one host, imports no client that its job may not need.
"""

from __future__ import annotations

from headrace.connect import registry


def preload() -> None:
    """Imports them. They start no thread, and nothing of a client's library is called before the fork."""
    registry.load_host_modules()
