"""A name for a cluster that is made for one job or program."""

from __future__ import annotations

import re
import secrets

_SUFFIX_BYTES = 3
_NAME_CHARS_MAX = 40


def new_name(name: str) -> str:
    """A name that no other cluster has, which begins with the name of what it serves."""
    suffix = f"-{secrets.token_hex(_SUFFIX_BYTES)}"
    fitting = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").lstrip("0123456789-")
    return f"{(fitting or 'job')[: _NAME_CHARS_MAX - len(suffix)].rstrip('-')}{suffix}"
