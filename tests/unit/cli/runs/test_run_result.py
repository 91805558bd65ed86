"""The progress line of `headrace run` where stderr is no terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.cli.runs import run_result as meters
from headrace.core.signals import TIME_MIN
from headrace.local.engine.job import Progress

IDLE = Progress(10, 10, 0, 0, 0, TIME_MIN, 0, running_ms=60_000, attempt_in=10, attempt_out=10)


def test_an_idle_run_does_not_repeat_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(meters, "PLAIN_SECONDS", 0.0)
    meter = meters.Meter(started_s=0.0)

    for second in range(100):
        meter.show(replace(IDLE, running_ms=60_000 + 1_000 * second))
    quiet = capsys.readouterr().err.splitlines()
    meter.show(replace(IDLE, rows_in=11, running_ms=161_000, attempt_in=11))

    # while the rate of the last seconds sinks to nothing the line still changes
    assert 1 <= len(quiet) <= 12
    assert quiet[-1].startswith("in 0 rows/s (10) | ")
    assert "(11)" in capsys.readouterr().err
