"""The metrics of one operator, in Prometheus' text format."""

from __future__ import annotations

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headrace.kubernetes_operator.resources.kinds import Kind

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Outcome = Literal["done", "conflict", "failed"]


class Figures:
    """Thread-safe."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._leading = Gauge(
            "headrace_operator_leading", "1: this operator handles resources.", registry=self._registry
        )
        self._resources = Gauge(
            "headrace_operator_resources", "Resources that are handled.", ["kind"], registry=self._registry
        )
        self._rounds = Counter("headrace_operator_rounds", "Rounds.", ["kind", "outcome"], registry=self._registry)
        self._seconds = Histogram(
            "headrace_operator_round_seconds", "Durations of rounds.", ["kind"], registry=self._registry
        )

    def leads(self) -> None:
        """Notes that this operator was elected."""
        self._leading.set(1)

    def handles(self, kind: Kind, change: int) -> None:
        """Notes resources that are handled from now on; negative: that are not any more."""
        self._resources.labels(kind.name).inc(change)

    def round(self, kind: Kind, outcome: Outcome, seconds: float) -> None:
        """Notes a round."""
        self._rounds.labels(kind.name, outcome).inc()
        self._seconds.labels(kind.name).observe(seconds)

    def text(self) -> bytes:
        """All of them."""
        return generate_latest(self._registry)
