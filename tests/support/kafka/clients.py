"""The ways to librdkafka: whole batches through its C interface, with kernels (native) or, for producers, with numpy in
their place (arrays), or confluent-kafka's own clients (client).

Conformance tests of connectors run with all of them (`both_consumers`, `every_producer`). Other tests run with the
native one, and in the full tier with the others as well.
"""

from __future__ import annotations

import pytest

from headrace_connectors.kafka.librdkafka.native_library import library

_CONSUMERS = ["native", pytest.param("client", marks=pytest.mark.full)]
_PRODUCERS = ["native", pytest.param("arrays", marks=pytest.mark.full), pytest.param("client", marks=pytest.mark.full)]
_NATIVE_PRODUCER = "headrace_connectors.kafka.sink.producers"
both_consumers = pytest.mark.parametrize("consumer_kind", ["native", "client"], indirect=True)
every_producer = pytest.mark.parametrize("producer_kind", ["native", "arrays", "client"], indirect=True)


@pytest.fixture(params=_CONSUMERS)
def consumer_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which consumer readers get; both must do the same."""
    return _chosen(str(request.param), "headrace_connectors.kafka.source.reader.library", monkeypatch)


@pytest.fixture(params=_PRODUCERS)
def producer_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which producer writers get; all must do the same."""
    if request.param == "arrays":
        monkeypatch.setattr(f"{_NATIVE_PRODUCER}.produce_kernel", lambda *_: None)
        monkeypatch.setattr(f"{_NATIVE_PRODUCER}.delivery_counter", lambda: None)
    return _chosen(str(request.param), "headrace_connectors.kafka.sink.producers.library", monkeypatch)


def _chosen(kind: str, chooser: str, monkeypatch: pytest.MonkeyPatch) -> str:
    if kind == "client":
        monkeypatch.setattr(chooser, lambda: None)
    else:
        assert library() is not None, "the wheel's librdkafka has what the batch call needs"
    return kind
