"""Watches our resources by kopf, which lists them, follows changes, and logs in again. It keeps no state: handlers of
events only, no finalizers and annotations of its own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any, cast

import kopf

from headrace.core.errors import ExternalError
from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import Connection
from headrace.kubernetes_operator.resources.kinds import API, GROUP, KINDS, VERSION, Kind
from headrace.kubernetes_operator.shell.resource_store import Key


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
    # events are our own: `event_log`
    settings.posting.enabled = False
    return settings
