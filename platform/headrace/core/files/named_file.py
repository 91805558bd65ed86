"""FILE as users name it: a pipeline file, or a module and a variable in it (`rides.py:pipeline`)."""

from __future__ import annotations

from pathlib import Path


def named_file(named: str) -> Path:
    """The file itself, absolute. The user's modules lie in its folder."""
    return Path(named.partition(":")[0] if ".py" in named else named).resolve()
