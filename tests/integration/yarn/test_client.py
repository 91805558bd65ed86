"""A client in a process that others share."""

from __future__ import annotations

import py4j.java_gateway
import pytest
from pyspark.errors.exceptions.captured import install_exception_handler

from headrace.yarn.client import YarnClient
from headrace.yarn.refusals import ApplicationNotFoundError


def test_a_client_beside_a_spark_session(yarn_client: YarnClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyspark translates the exceptions of all JVMs, and knows its own one only."""
    unpatched = py4j.java_gateway.get_return_value
    monkeypatch.setattr("py4j.java_gateway.get_return_value", unpatched)  # restored afterwards
    install_exception_handler()
    assert yarn_client.live("headrace-cluster-none") == ()
    with pytest.raises(ApplicationNotFoundError, match="application_1_0001"):
        yarn_client.report("application_1_0001")
