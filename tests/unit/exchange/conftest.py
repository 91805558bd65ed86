"""Fixtures for tests of the exchange."""

from __future__ import annotations

import pytest

from headrace.exchange.network import incoming
from support.processes.running import WAIT_SECONDS


@pytest.fixture(autouse=True)
def callers_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener hears callers out, however long a busy machine holds them up before they say who they are."""
    monkeypatch.setattr(incoming, "HANDSHAKE_S", WAIT_SECONDS)
