"""Reads the floors of an earlier run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.core.source_state import AppliedFloor


def read_floors(path: Path) -> tuple[AppliedFloor, ...]:
    """Returns the floors in a file that `headrace run --record-floors` wrote. Raises UserError."""
    from headrace.core.errors import UserError
    from headrace.core.source_state import AppliedFloor

    try:
        return tuple(AppliedFloor(**item) for item in json.loads(path.read_text()))
    except OSError as error:
        raise UserError(f"--floors {path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        remedy = "give a file that `headrace run --record-floors` wrote"
        raise UserError(f"--floors {path}: this is no list of floors", remedy=remedy) from error
