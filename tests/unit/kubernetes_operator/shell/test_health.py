"""What the probes of an operator's pod are answered."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from headrace.core.errors import ExternalError
from headrace.kubernetes_operator.resources.kinds import JOB
from headrace.kubernetes_operator.shell.health import STILL_SECONDS, Health, Outcome, probes


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number: int = taken.getsockname()[1]
    yield number


def answer(port: int, path: str = "/healthz") -> tuple[int, str]:
    found = httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False)
    return found.status_code, found.text


def test_a_standby_is_healthy_and_a_leader_while_its_loop_turns(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    health = Health()
    with probes(health, port):
        assert answer(port) == (200, "ok\n")
        assert answer(port, "/other")[0] == 404
        asyncio.run(turned(health))
        assert answer(port) == (200, "ok\n")
        # the loop is gone, and so are its beats
        late_s = time.monotonic() + STILL_SECONDS
        monkeypatch.setattr("headrace.kubernetes_operator.shell.health.time.monotonic", lambda: late_s)
        assert answer(port) == (503, "the event loop stands still\n")
    with pytest.raises(httpx.ConnectError):
        answer(port)


async def turned(health: Health) -> None:
    beating = asyncio.create_task(health.beat())
    await asyncio.sleep(0)
    beating.cancel()


def test_its_metrics_are_counted_by_kind(port: int) -> None:
    health = Health()
    health.figures.leads()
    health.figures.handles(JOB, 1)
    outcomes: tuple[Outcome, ...] = ("done", "done", "failed")
    for outcome in outcomes:
        health.figures.round(JOB, outcome, 0.1)
    with probes(health, port):
        status, text = answer(port, "/metrics")
    assert status == 200
    assert {
        "headrace_operator_leading 1.0",
        'headrace_operator_resources{kind="HeadraceJob"} 1.0',
        'headrace_operator_rounds_total{kind="HeadraceJob",outcome="done"} 2.0',
        'headrace_operator_rounds_total{kind="HeadraceJob",outcome="failed"} 1.0',
        'headrace_operator_round_seconds_count{kind="HeadraceJob"} 3.0',
    } <= set(text.splitlines())


def test_a_port_that_is_taken_is_an_error_and_none_is_no_server() -> None:
    with socket.create_server(("", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(ExternalError, match=f"port {number}"), probes(Health(), number):
            pass
    with probes(Health(), None):
        pass
