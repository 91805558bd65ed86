"""Runs checks side by side, each within a time limit: one that hangs neither delays nor hides the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.connect.access import Finding, Status
from headrace.core.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Check:
    """One check by its subject. It may block."""

    subject: str
    run: Callable[[], Sequence[Finding]]


def run_checks(checks: Sequence[Check], *, limit_s: float) -> tuple[Finding, ...]:
    """Returns the findings in the order of the checks, each once, after at most `limit_s` seconds.

    A check without an answer by then is a failure; its thread is abandoned and ends with the process.
    """
    results: dict[int, Sequence[Finding]] = {}
    threads = [
        threading.Thread(target=_run, args=(check, number, results), name=f"check-{number}", daemon=True)
        for number, check in enumerate(checks)
    ]
    for thread in threads:
        thread.start()
    deadline_s = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))
    done = dict(results)
    findings = [each for number, check in enumerate(checks) for each in done.get(number, _no_answer(check, limit_s))]
    # nodes with the same brokers find the same
    return tuple(dict.fromkeys(findings))


def _run(check: Check, number: int, results: dict[int, Sequence[Finding]]) -> None:
    try:
        results[number] = check.run()
    except HeadraceError as error:
        results[number] = (Finding(check.subject, Status.FAILED, error.message, error.remedy),)
    except Exception as error:
        # a check that breaks must not hide the others
        text = f"the check itself failed: {type(error).__name__}: {error}"
        results[number] = (Finding(check.subject, Status.FAILED, text, "please report this"),)


def _no_answer(check: Check, limit_s: float) -> tuple[Finding, ...]:
    return (
        Finding(check.subject, Status.FAILED, f"no answer within {limit_s:g} s", "check its address and the network"),
    )
