"""Opens the gateway to a JVM, and keeps Ctrl-C of a terminal from it. Importing this module does not import py4j."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def open_gateway(port: int, token: str) -> Any:
    """Returns py4j's JavaGateway to the JVM at this port of this host. A KeyboardInterrupt ends a call as it ends
    Python's own, and the next call has another connection. token: the secret that the JVM has printed."""
    from py4j.java_gateway import GatewayParameters, JavaGateway

    from headrace.jvm.interruptible_client import InterruptibleClient

    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    gateway.set_gateway_client(InterruptibleClient(gateway_parameters=parameters))
    return gateway


@contextmanager
def ignored_by_children() -> Iterator[None]:
    """Processes that are started inside ignore Ctrl-C: a terminal sends it to them, too, and they end with this one."""
    # only the main thread may set a handler
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
