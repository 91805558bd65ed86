"""Counts in texts for users."""

from __future__ import annotations


def plural(count: int, word: str) -> str:
    """`1 row`, `2 rows`, `1,000 rows`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def count_text(count: float) -> str:
    """`950`, `12.3 k`, `1.20 M`, `3.40 G`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size * 0.9995:
            value = count / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{count:.0f}"


def bytes_text(size: int) -> str:
    """`950 B`, `12.3 kB`, `1.20 MB`."""
    text = count_text(size)
    return f"{text}B" if " " in text else f"{text} B"
