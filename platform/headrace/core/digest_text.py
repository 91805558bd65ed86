"""Digests of rows (`core.digest`) as text and as sums, for those who never see a row."""

from __future__ import annotations

MODULUS = 1 << 128
"""Digests are whole numbers below this."""


def add_digests(*digests: int) -> int:
    """The digest of all rows together."""
    return sum(digests) % MODULUS


def digest_text(digest: int) -> str:
    """As 32 hex digits."""
    return f"{digest:032x}"


def digest_value(text: str) -> int:
    """The digest that a text says; 0 for the empty one."""
    return int(text, 16) if text else 0
