"""Digests of rows (`core.digest`) as text and as sums, for code that handles no rows."""

from __future__ import annotations

MODULUS = 1 << 128
"""Digests are whole numbers below this."""


def add_digests(*digests: int) -> int:
    """The digest of all rows together."""
    return sum(digests) % MODULUS


def digest_text(digest: int) -> str:
    """The digest as 32 hex digits."""
    return f"{digest:032x}"


def digest_value(text: str) -> int:
    """The digest that `digest_text` wrote; 0 for an empty text."""
    return int(text, 16) if text else 0
