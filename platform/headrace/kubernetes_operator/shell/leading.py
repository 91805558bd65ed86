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
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never, cast

import kopf

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.kubernetes.access import CONTEXT_VARIABLE
from headrace.kubernetes.connection import Connection, open_connection
from headrace.kubernetes.documents import Collection
from headrace.kubernetes_operator.resources.kinds import API, GROUP, KINDS, VERSION, Kind
from headrace.kubernetes_operator.shell.health import Health, probes
from headrace.kubernetes_operator.shell.own_object import release_own_namespace
from headrace.kubernetes_operator.shell.reconcilers import Reconcilers
from headrace.kubernetes_operator.shell.resource_store import Key
from headrace.leadership.elector import Elected, ElectorEvent, InDoubt, Lost
from headrace.leadership.opening import open_elector

# ---- watching: kopf lists resources, follows changes and logs in again; it keeps no state ----------------------------


async def watch(namespaces: Sequence[str], on_change: Callable[[Key], None], stop: asyncio.Event) -> None:
    """Calls `on_change` for each object that is there, appears, changes or goes, until `stop` is set. namespaces:
    empty: all of them. Raises ExternalError."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(kopf.login_via_client)
    for kind in KINDS:
        kopf.on.event(GROUP, VERSION, kind.plural, registry=registry)(_handler(kind, on_change))
    try:
        await _run(registry, namespaces, stop)
    except kopf.LoginError as error:
        raise ExternalError(f"the API server does not accept the credentials: {error}") from error


async def _run(registry: kopf.OperatorRegistry, namespaces: Sequence[str], stop: asyncio.Event) -> None:
    await kopf.operator(
        registry=registry,
        settings=_settings(),
        # kopf's default asks the table of users for a name, which the user of a container may not have
        identity=cast("Any", socket.gethostname()),
        # the Lease decides which operator handles
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )


def require_definitions(connection: Connection, namespaces: Sequence[str]) -> None:
    """Raises ExternalError if the API server does not serve the resources, or does not allow to list them: kopf would
    wait for that in silence."""
    for kind in KINDS:
        for namespace in namespaces or (None,):
            connection.list(Collection(API, kind.plural, namespace))


def _handler(kind: Kind, on_change: Callable[[Key], None]) -> Callable[..., Any]:
    async def on_event(*, name: str, namespace: str, **_others: object) -> None:
        on_change(Key(kind, namespace, name))

    on_event.__name__ = f"on_{kind.singular}"
    return on_event


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # without the right to watch definitions and namespaces of the whole cluster
    settings.scanning.disabled = True
    # `EventLog` writes the events
    settings.posting.enabled = False
    return settings


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
        # a signal ends it, too: kopf handles the loop's signals
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
