"""Both ways to librdkafka: whole batches through its C interface, or confluent-kafka's own clients."""

from __future__ import annotations

import pytest

from headrace_connectors.kafka.librdkafka import library


@pytest.fixture(params=["native", "client"])
def consumer_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which consumer readers get; both must do the same."""
    if request.param == "client":
        monkeypatch.setattr("headrace_connectors.kafka.consumers.library", lambda: None)
    else:
        assert library() is not None, "the wheel's librdkafka has what the batch call needs"
    return str(request.param)
