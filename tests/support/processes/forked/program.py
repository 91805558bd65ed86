"""The program that the server's template forks: one `headrace` command."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

PROGRAM, ROLE = "support.processes.forked.program", "headrace"


def preload() -> None:
    """What commands import, and what the coordinators do that some of them start: the command line, clients, the
    engine, servers."""
    import headrace.cli.app
    import headrace.client.http
    import headrace.coordinator.connector_host.main
    import headrace.coordinator.leading.candidate
    import headrace.coordinator.rest.app
    import headrace.local.engine.compile
    from headrace.worker.slot import main as slot
    from support.suite.watermarks import watch_slots

    assert headrace.cli.app
    slot.preload()
    # slots are forked off what is forked off here
    watch_slots()


def main(arguments: list[str]) -> NoReturn:
    """Runs `headrace <arguments>`, whose first one is the folder to run in."""
    from headrace.cli.app import main as headrace

    folder, path, *words = arguments[1:]
    os.chdir(folder)
    if path:
        _take_up(path)
    sys.argv = ["headrace", *words]
    headrace()
    sys.exit(0)


def _take_up(path: str) -> None:
    """What a fresh interpreter does with PYTHONPATH; packages there may have connectors."""
    from headrace.connect import registry

    os.environ["PYTHONPATH"] = path
    sys.path[:0] = path.split(os.pathsep)
    importlib.invalidate_caches()
    registry._entries.cache_clear()


if __name__ == "__main__":
    main(sys.argv[1:])
