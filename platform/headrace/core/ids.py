"""Names with a meaning across the system, and the rules for them."""

from __future__ import annotations

import re
from typing import NewType

NodeName = NewType("NodeName", str)

NODE_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
PIPELINE_NAME = re.compile(r"[a-z0-9-]+\Z")
HIDDEN_PREFIX = "__"


def split_output(reference: str) -> tuple[str, str | None]:
    """Splits a reference into a node and one of its side outputs: `hourly` -> (hourly, None); `hourly.late` -> (hourly,
    late)."""
    node, dot, output = reference.partition(".")
    return node, output if dot else None
