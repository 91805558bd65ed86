"""Draws the random part of names in checkpoint storage (`checkpoint.paths`), so that no two writers use one name."""

from __future__ import annotations

import secrets


def unique_part() -> str:
    """A random part of a name: 16 hex digits."""
    return secrets.token_hex(8)
