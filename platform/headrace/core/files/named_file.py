"""FILE arguments as users write them: a pipeline file, or a module and a variable in it (`rides.py:pipeline`)."""

from __future__ import annotations

from pathlib import Path


def named_file(named: str) -> Path:
    """The absolute path of the file itself. Its folder holds the user's modules."""
    return Path(named.partition(":")[0] if ".py" in named else named).resolve()
