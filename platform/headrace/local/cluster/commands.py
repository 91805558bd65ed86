"""The command lines of a cluster's processes, with the marks by which each is known again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.client.discovery import cluster_folder, token_file
from headrace.core.settings import Home

LOOPBACK = "127.0.0.1"
COORDINATOR_ROLE, WORKER_ROLE, SLOT_ROLE = "headrace-coordinator", "headrace-worker", "headrace-slot"


def coordinator_command(home: Home, port: int, grpc_port: int) -> list[str]:
    """A coordinator on loopback with these ports."""
    return [
        *(sys.executable, "-m", "headrace.coordinator.main", COORDINATOR_ROLE),
        *("--home", str(home.root), "--host", LOOPBACK, "--port", str(port), "--grpc-port", str(grpc_port)),
        *_token(home),
    ]


def worker_command(home: Home, worker: str, grpc: str, slots: int) -> list[str]:
    """A worker of this host, which dials the coordinator."""
    return [
        # Python passes over -X options that it does not know: this one only tells workers of two homes apart
        *(sys.executable, "-X", _home_mark(home), "-m", "headrace", WORKER_ROLE),
        *("--id", worker, "--coordinator", grpc, "--slots", str(slots), "--host", LOOPBACK),
        *_token(home),
    ]


def coordinator_marks(home: Home) -> tuple[str, ...]:
    """What only the coordinator of this home has in its command line."""
    return (COORDINATOR_ROLE, str(home.root))


def worker_marks(home: Home, worker: str) -> tuple[str, ...]:
    """What only this worker has in its command line."""
    return (WORKER_ROLE, worker, _home_mark(home))


def log_file(home: Home, name: str) -> Path:
    """Where a process of the cluster logs to."""
    return cluster_folder(home) / "logs" / f"{name}.log"


def environment(home: Home) -> Mapping[str, str]:
    """Every process of a home has it in its environment."""
    return os.environ | {"HEADRACE_HOME": str(home.root), "PYTHONUNBUFFERED": "1"}


def _token(home: Home) -> tuple[str, ...]:
    return ("--token-file", str(token_file(home))) if token_file(home).exists() else ()


def _home_mark(home: Home) -> str:
    return f"headrace-home={home.root}"
