"""A job's connector host, as the coordinator sees it: a child process that holds enumerators and committers.

    driver ──open, discover, commit, close──> ConnectorHost ══socketpair══> connector_host_process

Owns the process, the requests in flight and their deadlines. Knows nothing of connectors: documents go in and out. A
host that died is not revived: the driver starts another one and opens it with the splits it knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from headrace.checkpoint.manifest import CommittableDocument, Document, SplitDocument
from headrace.core.errors import Domain, ExternalError, HeadraceError, InternalError, UserError
from headrace.rpc.messages import Failure

OPEN_TIMEOUT_S = 120.0
DISCOVER_TIMEOUT_S = 60.0
COMMIT_TIMEOUT_S = 120.0
CLOSE_TIMEOUT_S = 10.0

_FRAME_LENGTH = 4
_FAILURE = TypeAdapter(Failure)


class DiscoveredSource(Document):
    """What a source's enumerator found when it was opened.

    splits        all of them, those that were known before included
    interval_ms   how often to ask for new ones; None: never
    final         no more will come
    """

    splits: tuple[SplitDocument, ...]
    interval_ms: int | None
    final: bool


@dataclass(slots=True)
class _Request:
    lane: str
    answer: asyncio.Future[Any]


class ConnectorHost:
    """One host process of one job; used on one event loop. All methods may be called at the same time."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Made by `start`."""
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count()
        self._pending: dict[int, _Request] = {}
        self._known: dict[str, set[tuple[str, int]]] = {}
        self.died = asyncio.Event()
        """Set when the process is gone or no longer answers; the reason is in `reason`."""
        self.reason = ""
        self._closing = False
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls, job: str, environment: Mapping[str, str] | None = None, log: Path | None = None
    ) -> ConnectorHost:
        """Starts the process. `environment` comes on top of this process's; `log` takes what it prints."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    async def open(
        self,
        pipeline: Mapping[str, Any],
        known: Mapping[str, Sequence[SplitDocument]],
        python_path: Sequence[str] = (),
        code: Sequence[str] = (),
        *,
        foreign: bool = False,
    ) -> dict[str, DiscoveredSource]:
        """Prepares the sinks, opens enumerators and committers and finds the splits, by source.

        known     splits of an earlier start of this job: they keep their `start` and `stop`
        foreign   `known` is from another job (a savepoint): `stop` is resolved anew

        Raises HeadraceError as the connectors do; ExternalError with `retry` where the process died.
        """
        raise NotImplementedError

    async def discover(self, source: str) -> tuple[SplitDocument, ...]:
        """Looks for splits that no answer has held before. Raises as `open`."""
        raise NotImplementedError

    async def commit(self, epoch: int, committables: Sequence[CommittableDocument]) -> None:
        """Makes a complete epoch's output visible; a second call changes nothing. Raises as `open`."""
        raise NotImplementedError

    async def close(self) -> None:
        """Closes the connectors and ends the process, at the latest after 10 s. Idempotent."""
        raise NotImplementedError
