"""Checks that sinks still remember which rows of a decided epoch are published.

A publisher reads from its external system how many rows of its share are visible already (`connect.publisher`). That
information expires there. After that, publishing an old decision would write its rows again from the first one on, so
the user has to choose.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.errors import UserError
from headrace.plan.physical import SinkSpec

FRESH_MS = 30_000
"""No sink forgets within this time, in ms, so none is queried before: Kafka keeps offsets for at least a minute."""
MARGIN_PART = 10
MARGIN_MAX_MS = 3_600_000
"""Rows count as forgotten earlier than the sink forgets them: by a tenth of its time, at most an hour. Clocks differ,
and publishing takes time.
"""


def require_remembered(sinks: Iterable[SinkSpec], job: str, age_ms: int) -> None:
    """Raises UserError if one of the sinks may have forgotten which of the job's rows it has, ExternalError if it does
    not answer.

    age_ms   time since the decision: nothing was published before it
    """
    if age_ms < FRESH_MS:
        return
    for spec in sinks:
        known_ms = spec.config.remembers_ms()
        if known_ms is not None and age_ms >= known_ms - min(known_ms // MARGIN_PART, MARGIN_MAX_MS):
            raise UserError(
                f"the results of {job} were decided {_text(age_ms)} ago, but sink {spec.node!r} keeps the number of "
                f"published rows for {_text(known_ms)} only: publishing now may write rows a second time",
                remedy="check which rows the sink has, then repeat the command with --allow-repeated-output (publishes "
                "rows whose publication is unknown) or with --give-up (unpublished rows are dropped)",
            )


def _text(length_ms: int) -> str:
    """Returns a length in a unit of which it has at least two: `9d`, `26h`, `80m`."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if length_ms >= 2 * unit_ms:
            return f"{length_ms // unit_ms}{unit}"
    return f"{length_ms // 1000}s"
