"""Both ways to librdkafka: whole batches through its C interface (native), or confluent-kafka's own clients.

Conformance tests of connectors run with both (`both_consumers`, `both_producers`). Other tests run with the native one,
and in the full tier with the other one as well.
"""

from __future__ import annotations

import pytest

from headrace_connectors.kafka.librdkafka.native_library import library

_KINDS = ["native", pytest.param("client", marks=pytest.mark.full)]
both_consumers = pytest.mark.parametrize("consumer_kind", ["native", "client"], indirect=True)
both_producers = pytest.mark.parametrize("producer_kind", ["native", "client"], indirect=True)


@pytest.fixture(params=_KINDS)
def consumer_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which consumer readers get; both must do the same."""
    return _chosen(str(request.param), "headrace_connectors.kafka.source.consumers.library", monkeypatch)


@pytest.fixture(params=_KINDS)
def producer_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which producer writers get; both must do the same."""
    return _chosen(str(request.param), "headrace_connectors.kafka.sink.producers.library", monkeypatch)


def _chosen(kind: str, chooser: str, monkeypatch: pytest.MonkeyPatch) -> str:
    if kind == "client":
        monkeypatch.setattr(chooser, lambda: None)
    else:
        assert library() is not None, "the wheel's librdkafka has what the batch call needs"
    return kind
