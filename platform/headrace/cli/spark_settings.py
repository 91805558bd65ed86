"""What commands that run on Spark have in common: settings from the command line, and a quiet driver."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence


def settings_of(given: Sequence[str] | None) -> dict[str, str]:
    """`key=value` texts as a mapping. Raises UserError."""
    from headrace.core.errors import UserError

    settings: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--conf {text} is no setting", remedy="write --conf spark.executor.memory=4g")
        settings[name] = value
    return settings


def quiet_driver() -> None:
    """Before pyspark is imported: one thread of polars, and no advice about versions of libraries we do not use."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
