"""Checks that hang, break and repeat each other."""

from __future__ import annotations

import threading

from headrace.connect.access import Finding, Status
from headrace.core.errors import ExternalError
from headrace.local.doctor.probes import Check, run_checks

GOOD = Finding("a", Status.OK, "good")


def test_a_check_that_hangs_is_a_failure_and_delays_no_other() -> None:
    never = threading.Event()
    hanging = Check("slow", lambda: (GOOD, GOOD)[: never.wait()])
    found = run_checks([hanging, Check("a", lambda: (GOOD,))], limit_s=0.2)
    never.set()
    assert [(each.check, each.status) for each in found] == [("slow", Status.FAILED), ("a", Status.OK)]
    assert found[0].text == "no answer within 0.2 s"


def test_a_check_that_breaks_hides_no_other() -> None:
    def refused() -> tuple[Finding, ...]:
        raise ExternalError("refused", remedy="ask")

    def broken() -> tuple[Finding, ...]:
        raise ZeroDivisionError("by zero")

    found = run_checks([Check("x", refused), Check("y", broken), Check("a", lambda: (GOOD,))], limit_s=60)
    assert [each.status for each in found] == [Status.FAILED, Status.FAILED, Status.OK]
    assert (found[0].text, found[0].remedy) == ("refused", "ask")
    assert "ZeroDivisionError: by zero" in found[1].text


def test_what_several_checks_find_is_said_once() -> None:
    assert run_checks([Check("a", lambda: (GOOD,))] * 3, limit_s=60) == (GOOD,)
