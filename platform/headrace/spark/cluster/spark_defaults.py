"""Reads Spark's own defaults: `spark-defaults.conf` in Spark's configuration folder. They count as the user's
choice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_SETTING = re.compile(r"([^\s=:#!][^\s=:]*)[\s=:]+(.*)")


def conf_folder() -> Path | None:
    """Returns the folder with Spark's configuration files, or None."""
    named = os.environ.get("SPARK_CONF_DIR")
    home = os.environ.get("SPARK_HOME")
    folder = Path(named) if named else Path(home, "conf") if home else None
    return folder if folder is not None and folder.is_dir() else None


def with_defaults(chosen: Mapping[str, str]) -> dict[str, str]:
    """Returns the user's settings, completed with Spark's defaults."""
    folder = conf_folder()
    file = None if folder is None else folder / "spark-defaults.conf"
    if file is None or not file.is_file():
        return dict(chosen)
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    defaults = {match[1]: match[2] for match in map(_SETTING.fullmatch, lines) if match is not None}
    return defaults | dict(chosen)
