"""Whether the outside still knows how far decided results are published.

A publisher is told by the outside what of its share is visible already (`connect.publisher`). Where that is forgotten
after a time, a decision that is taken up later would publish its rows anew, from the first one on: then it is for the
user to say what is to be done.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.errors import UserError
from headrace.plan.physical import SinkSpec

FRESH_MS = 30_000
"""Nobody forgets within it, so nobody is asked: Kafka keeps offsets for a minute at the least."""
MARGIN_PART = 10
MARGIN_MAX_MS = 3_600_000
"""So much earlier it counts as forgotten, a part of the time or an hour: clocks differ, and publishing takes time."""


def require_remembered(sinks: Iterable[SinkSpec], job: str, age_ms: int) -> None:
    """Raises UserError where one of the sinks may have forgotten what of the job's results is published, ExternalError
    where it does not say.

    age_ms   how long ago the results were decided on: nothing of them was published before
    """
    if age_ms < FRESH_MS:
        return
    for spec in sinks:
        known_ms = spec.config.remembers_ms()
        if known_ms is not None and age_ms >= known_ms - min(known_ms // MARGIN_PART, MARGIN_MAX_MS):
            raise UserError(
                f"the results of {job} were decided on {_text(age_ms)} ago, and sink {spec.node!r} remembers for "
                f"{_text(known_ms)} only what of them it has: publishing them now may write rows a second time",
                remedy="see what the sink has, and give the same command with --allow-repeated-output (rows of which "
                "it remembers nothing are published) or with --give-up (what is not published never will be)",
            )


def _text(length_ms: int) -> str:
    """A length in a unit of which it has at least two: `9d`, `26h`, `80m`."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if length_ms >= 2 * unit_ms:
            return f"{length_ms // unit_ms}{unit}"
    return f"{length_ms // 1000}s"
