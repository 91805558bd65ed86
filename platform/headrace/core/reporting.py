"""The guard around everything that only reports: reasons, samples, figures, previews, warnings.

No row, state or checkpoint depends on a report, so a report may not fail a task. What raises here is a fault of
Headrace or of a library: it is written to standard error, the first time for each kind of report, and counted.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from polars.exceptions import PanicException

Given = ParamSpec("Given")
Report = TypeVar("Report")

FAILED: Counter[str] = Counter()
"""Reports of this process that raised, by kind."""
# a panic of polars is a BaseException
_CAUGHT = (Exception, PanicException)


@contextmanager
def reporting(kind: str) -> Iterator[None]:
    """Around a report: an error in it ends the report, and nothing else."""
    try:
        yield
    except _CAUGHT:
        _note(kind)


def reported(
    kind: str, otherwise: Report, report: Callable[Given, Report], *given: Given.args, **named: Given.kwargs
) -> Report:
    """The result of `report`, or `otherwise` if it raises."""
    try:
        return report(*given, **named)
    except _CAUGHT:
        _note(kind)
        return otherwise


def _note(kind: str) -> None:
    FAILED[kind] += 1
    if FAILED[kind] == 1:
        sys.stderr.write(f"a report failed ({kind}); rows are not affected:\n{traceback.format_exc()}")
