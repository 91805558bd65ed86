"""The operator's process: waits for the Lease, handles resources while it has it, ends when it loses it.

campaign ──> Elected ──> watch and reconcile ──> SIGTERM: finish rounds, release the Lease, end
                           │  ^    └── Lost: end with an error at once; started again, it is a standby
                   InDoubt v  │ Elected
                         hold: no further round begins
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.kubernetes.access import CONTEXT_VARIABLE
from headrace.kubernetes.connection import Connection, open_connection
from headrace.kubernetes_operator.shell.going_namespace import release_own_namespace
from headrace.kubernetes_operator.shell.health import Health, probes
from headrace.kubernetes_operator.shell.reconcilers import Reconcilers
from headrace.kubernetes_operator.shell.watching import require_definitions, watch
from headrace.leadership.elector import Elected, ElectorEvent, InDoubt, Lost
from headrace.leadership.opening import open_elector

LOG = logging.getLogger("headrace.operator")


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """namespaces: whose resources are handled; empty: all. lease: URL of the election, `kubernetes://NAMESPACE/NAME`,
    or `kubernetes:///NAME` in the namespace of the pod or context; probe_port: where probes are answered; None:
    nowhere."""

    namespaces: Sequence[str]
    lease: str
    probe_port: int | None = None


@dataclass(frozen=True, slots=True)
class _Ended:
    """A signal asks the process to end."""


_Event = ElectorEvent | _Ended


def run_operator(options: OperatorOptions) -> None:
    """Runs until a signal. Raises UserError, and ExternalError: the Lease is lost or may not be written, or
    the API server does not have our resources."""
    if os.environ.get(CONTEXT_VARIABLE):
        raise UserError(f"the operator does not take {CONTEXT_VARIABLE}", remedy="kubectl config use-context NAME")
    connection = open_connection(os.environ)
    elector = open_elector(options.lease, os.environ)
    events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
    # pid 1 of a container ignores a signal without a handler
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: events.put(_Ended()))
    try:
        require_definitions(connection, options.namespaces)
        elector.campaign(events.put)
        LOG.info("this operator waits to be elected by the Lease %s", options.lease)
        health = Health()
        with probes(health, options.probe_port):
            if _wait_elected(events):
                LOG.info("this operator was elected")
                asyncio.run(_lead(options, connection, events, health))
    finally:
        elector.close()
        connection.close()


def _wait_elected(events: queue.SimpleQueue[_Event]) -> bool:
    while True:
        match events.get():
            case Elected():
                return True
            case _Ended():
                return False
            case Lost(reason):
                raise _lost(reason)
            case InDoubt():
                pass


async def _lead(
    options: OperatorOptions, connection: Connection, events: queue.SimpleQueue[_Event], health: Health
) -> None:
    """Handles resources until an event ends it. Raises ExternalError if the Lease is lost."""
    health.figures.leads()
    reconcilers = Reconcilers(connection, health.figures)
    stop = asyncio.Event()
    # in a thread of its own: a queue that threads and signal handlers put into
    following = asyncio.create_task(_follow(events, reconcilers, stop))
    beating = asyncio.create_task(health.beat())
    try:
        # ends by itself for a signal, too: kopf handles those of the loop
        await watch(options.namespaces, reconcilers.wake, stop)
    finally:
        events.put(_Ended())
        ending = await asyncio.gather(following, return_exceptions=True)
        lost = next((each for each in ending if isinstance(each, ExternalError)), None)
        if lost is None:
            await reconcilers.close()
            await asyncio.to_thread(_release, connection)
        beating.cancel()
        if lost is not None or reconcilers.is_busy:
            # a round may hang in a request, and Python would wait for its thread; steps are repeated by the successor
            _leave(lost)


async def _follow(events: queue.SimpleQueue[_Event], reconcilers: Reconcilers, stop: asyncio.Event) -> None:
    """Follows the election. Raises ExternalError once the Lease is lost."""
    while True:
        event = await asyncio.to_thread(events.get)
        match event:
            case Elected():
                reconcilers.hold(is_held=False)
            case InDoubt(reason):
                LOG.warning("this operator holds: %s", reason)
                reconcilers.hold(is_held=True)
            case Lost(reason):
                reconcilers.hold(is_held=True)
                stop.set()
                raise _lost(reason)
            case _Ended():
                stop.set()
                return
            case _:
                assert_never(event)


def _release(connection: Connection) -> None:
    try:
        release_own_namespace(connection)
    except HeadraceError as error:
        LOG.warning("whether the namespace goes is not known: %s", error)


def _lost(reason: str) -> ExternalError:
    return ExternalError(
        f"this operator does not lead any more: {reason}", remedy="started again, it waits to be elected"
    )


def _leave(lost: ExternalError | None) -> None:
    if lost is not None:
        LOG.error("%s", lost)
    logging.shutdown()
    os._exit(0 if lost is None else 1)
