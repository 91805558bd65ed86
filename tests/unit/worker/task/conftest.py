"""The two ways of a source task to poll."""

from __future__ import annotations

import pytest

from support.control.running_source import Running


@pytest.fixture(params=[False, True], ids=["in-turn", "ahead"])
def ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether sources are polled ahead."""
    allowed: bool = request.param
    monkeypatch.setattr(Running, "ahead", allowed)
    return allowed
