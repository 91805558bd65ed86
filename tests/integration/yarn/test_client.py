"""A client in a process that others share."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import py4j.java_gateway
import pytest
from pyspark.errors.exceptions.captured import install_exception_handler

from headrace.yarn.client import YarnClient
from headrace.yarn.jvm import JvmConfig, find_hadoop_client, settings_for
from headrace.yarn.refusals import ApplicationNotFoundError
from support.processes.running import wait_until
from support.yarn.cluster import Yarn


def test_a_client_beside_a_spark_session(yarn_client: YarnClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyspark translates the exceptions of all JVMs, and knows its own one only."""
    unpatched = py4j.java_gateway.get_return_value
    monkeypatch.setattr("py4j.java_gateway.get_return_value", unpatched)  # restored afterwards
    install_exception_handler()
    assert yarn_client.live("headrace-cluster-none") == ()
    with pytest.raises(ApplicationNotFoundError, match="application_1_0001"):
        yarn_client.report("application_1_0001")


def test_an_interrupt_amid_a_call_is_an_interrupt(tmp_path: Path, yarn: Yarn) -> None:
    environment = {**os.environ, **yarn.variables}
    jvm = JvmConfig(find_hadoop_client(environment), tmp_path, environment, settings_for(1.0)).open()
    semaphore = jvm.java.java.util.concurrent.Semaphore(0)
    main = threading.get_ident()

    def interrupt() -> None:
        # a thread has a connection of its own, and sees that the call of the other one is under way
        wait_until(semaphore.hasQueuedThreads, "a call waits")
        signal.pthread_kill(main, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), jvm.calls():
            other.start()
            semaphore.acquire()
        with jvm.calls():
            assert semaphore.availablePermits() == 0, "the next call has another connection"
    finally:
        semaphore.release()
        other.join()
        jvm.close()
