"""How tests that run a worker or a connector host inside of pytest start processes: one template for a test process."""

from __future__ import annotations

from functools import cache

from headrace.coordinator.connector_host.connector_host import PROGRAM as HOST
from headrace.processes.forking import StartMethod, start_method
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.processes.template.client import TemplateStarter
from headrace.worker.supervision.slot_process import PROGRAM as SLOT


@cache
def shared_starter() -> Starter:
    """Starts slots and connector hosts, by HEADRACE_START_METHOD. Its template ends with this process."""
    if start_method() is StartMethod.SPAWN:
        return SpawnStarter()
    return TemplateStarter([SLOT, HOST])
