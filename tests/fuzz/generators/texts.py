"""Random text: words and figures, characters of every length, and bytes that are no UTF-8.

Such bytes stand as surrogates: encode with `surrogateescape`.
"""

from __future__ import annotations

from random import Random

WORDS = (
    *("", "x", "GET", "hello", "2024-01-01T00:00:00Z", "12.5", "true", "null", "{}", "a,b", "lorem ipsum", "Zürich"),
    *("名前", "\U0001f600", "naïve café", "twelve bytes", "thirteen byte", "fifteen bytes..", "sixteen bytes..."),
    "\x7f",
)
EDGE_PIECES = (
    *("\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "\u2028", "\ufeff"),
    *("{", "}", "[", "]", ":", ",", "/", "'", ";", "|", "é" * 8, "x" * 16, "x" * 64, "0", " ", "\U0001f600" * 5),
)
"""The first and last character of each length, and what has a meaning in some format."""
BROKEN_UTF8 = tuple(
    piece.decode("utf-8", "surrogateescape")
    for piece in (
        *(b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xc2\x20", b"\xc3\xc3", b"\xe0\x80\x80"),
        b"\xe0\x9f\xbf",
        *(b"\xe1\x80", b"\xe1\x80\x20", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80", b"\xef\xbf"),
        *(b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8"),
        *(b"\xfe\xff", b"\xf1\x80\x80\xc0", b"\xf1\x80\x20\x80", b"\xf1\x20", b"\xe1\xc0\x80", b"\xf4\x8f\xbf"),
        b"\xe2",
        *(b"\xc2\xc2\x80", b"\xff"),
    )
)
"""Sequences that are no UTF-8."""


def plain_text(chance: Random) -> str:
    """Words and figures of any length, without quotes, backslashes and line breaks."""
    roll = chance.random()
    if roll < 0.5:
        return chance.choice(WORDS)
    if roll < 0.97:
        return figures(chance, chance.randrange(40))
    return figures(chance, 200) * chance.randrange(1, 12)


def figures(chance: Random, size: int) -> str:
    """`size` figures and letters."""
    return f"{chance.getrandbits(4 * size):0{size}x}" if size else ""


def pieces(chance: Random, some: tuple[str, ...]) -> str:
    """A few pieces, most of them with figures between."""
    parts = []
    for _ in range(chance.randrange(1, 6)):
        parts += [figures(chance, chance.randrange(20)) if chance.random() < 0.7 else "", chance.choice(some)]
    return "".join(parts)
