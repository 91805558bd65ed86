"""Random JSON strings, with their quotes. Bytes that are no UTF-8 stand as surrogates: encode with `surrogateescape`."""

from __future__ import annotations

import json
from random import Random

_WORDS = (
    *("", "x", "GET", "hello", "2024-01-01T00:00:00Z", "12.5", "true", "null", "{}", "a,b", "lorem ipsum", "Zürich"),
    *("名前", "\U0001f600", "naïve café", "twelve bytes", "thirteen byte", "fifteen bytes..", "sixteen bytes...", "\x7f"),
)
_PLAIN_ESCAPES = ("\\n", '\\"', "\\\\", "\\/", "\\t", "\\u00e9", "\\r")
_EDGE_PIECES = (
    *("\\b", "\\f", "\\u0041", "\\u000A", "\\u001f", "\\u007F", "\\u0080", "\\u07ff", "\\u0800", "\\ud7ff", "\\uE000"),
    *("\\uFFFF", "\\ufffe", "\\ud83d\\ude00", "\\uD800\\uDC00", "\\udbff\\udfff", "\\u2028", "\\u0022", "\\u005c", "\\u0000"),
    *("\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "\u2028", "\ufeff"),
    *("{", "}", "[", "]", ":", ",", "/", "'", "\\\\\\\\", '\\"\\"', "\\\\u0041", "é" * 8, "x" * 16, "x" * 64),
)
_BROKEN_PIECES = (
    *("\\", "\\x41", "\\u", "\\u1", "\\u12", "\\u123", "\\u12g4", "\\U0041", "\\u 041", "\\u+041", "\\u-041", "\\'", "\\0"),
    *("\\ud800", "\\udc00", "\\ud800x", "\\ud800\\u0041", "\\udc00\\ud800", "\\ud800\\ud800\\udc00", "\\ud83d\\", "\\ud83d\\u"),
    *("\\ud800\\ud800", "\\ud800\\udbff", "\\udbff\\ue000", "\\udc00\\udc00", "\\udfff\\udfff", "\\udc00\\udfff"),
    *("\\ud83d\\ude0", "\\ud83d\\n", "\\dude00", "\\u\uff11\uff11\uff11\uff11", "\\a", "\\e", "\\\n", "\\é", "\\u00zz"),
    *("\n", "\t", "\0", "\r", "\x01", "\x1f", '"', '"x', '","', '"}', "\\u0@41", "\\u004G", "\\u00`1", "\\u:000"),
)
_BROKEN_UTF8 = (
    *(b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xc2\x20", b"\xc3\xc3", b"\xe0\x80\x80", b"\xe0\x9f\xbf"),
    *(b"\xe1\x80", b"\xe1\x80\x20", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80", b"\xef\xbf", b"\xe2"),
    *(b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8", b"\xff"),
    *(b"\xfe\xff", b"\xf1\x80\x80\xc0", b"\xf1\x80\x20\x80", b"\xf1\x20", b"\xe1\xc0\x80", b"\xf4\x8f\xbf", b"\xc2\xc2\x80"),
)
BROKEN_UTF8 = tuple(piece.decode("utf-8", "surrogateescape") for piece in _BROKEN_UTF8)
"""Sequences that are no UTF-8, as surrogates."""


def plain_string(chance: Random) -> str:
    """Words and figures of any length, a few escapes."""
    roll = chance.random()
    if roll < 0.4:
        return f'"{chance.choice(_WORDS)}"'
    if roll < 0.8:
        return f'"{_ascii(chance, chance.randrange(40))}"'
    if roll < 0.82:
        return f'"{_ascii(chance, 200) * chance.randrange(1, 12)}"'
    if roll < 0.9:
        return json.dumps(chance.choice(_WORDS) * chance.randrange(4))
    return f'"{_ascii(chance, chance.randrange(20))}{chance.choice(_PLAIN_ESCAPES)}{_ascii(chance, chance.randrange(20))}"'


def edge_string(chance: Random) -> str:
    """Escapes and characters of every length, at any distance of each other."""
    return _pieces(chance, _EDGE_PIECES)


def broken_string(chance: Random) -> str:
    """A string with a bad escape, a control character, a quote too many, or bytes that are no UTF-8."""
    broken = _BROKEN_PIECES if chance.random() < 0.5 else BROKEN_UTF8
    whole = _pieces(chance, _EDGE_PIECES) if chance.random() < 0.5 else f'"{_ascii(chance, chance.randrange(40))}"'
    at = chance.randrange(1, len(whole))
    end = whole[at:] if chance.random() < 0.8 else ""
    return f"{whole[:at]}{chance.choice(broken)}{end}"


def escaped(chance: Random, text: str) -> str:
    """The same string, some of its characters as escapes."""
    rate = chance.choice((0.05, 0.3, 1.0))
    return f'"{"".join(_escape(chance, char, rate) for char in text)}"'


def _escape(chance: Random, char: str, rate: float) -> str:
    if chance.random() >= rate:
        return json.dumps(char, ensure_ascii=False)[1:-1]
    units = char.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    upper = chance.random() < 0.5
    return "".join(f"\\u{code:04X}" if upper else f"\\u{code:04x}" for code in codes)


def _ascii(chance: Random, size: int) -> str:
    """Letters and figures; `size` of them."""
    return f"{chance.getrandbits(4 * size):0{size}x}" if size else ""


def _pieces(chance: Random, pieces: tuple[str, ...]) -> str:
    parts = []
    for _ in range(chance.randrange(1, 6)):
        parts += [_ascii(chance, chance.randrange(20)) if chance.random() < 0.7 else "", chance.choice(pieces)]
    return f'"{"".join(parts)}"'
