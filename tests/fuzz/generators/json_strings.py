"""Random JSON strings with their quotes. Bytes that are no UTF-8 stand as surrogates: encode with `surrogateescape`."""

from __future__ import annotations

import json
from random import Random

from fuzz.generators.texts import BROKEN_UTF8, EDGE_PIECES, WORDS, figures, pieces, plain_text

_PLAIN_ESCAPES = ("\\n", '\\"', "\\\\", "\\/", "\\t", "\\u00e9", "\\r")
_EDGE_PIECES = (
    *("\\b", "\\f", "\\u0041", "\\u000A", "\\u001f", "\\u007F", "\\u0080", "\\u07ff", "\\u0800", "\\ud7ff", "\\uE000"),
    *("\\uFFFF", "\\ufffe", "\\ud83d\\ude00", "\\uD800\\uDC00", "\\udbff\\udfff", "\\u2028", "\\u0022", "\\u005c"),
    *("\\u0000", "\\\\\\\\", '\\"\\"', "\\\\u0041", *EDGE_PIECES),
)
_BROKEN_PIECES = (
    *("\\", "\\x41", "\\u", "\\u1", "\\u12", "\\u123", "\\u12g4", "\\U0041", "\\u 041", "\\u+041", "\\u-041", "\\'"),
    "\\0",
    *("\\ud800", "\\udc00", "\\ud800x", "\\ud800\\u0041", "\\udc00\\ud800", "\\ud800\\ud800\\udc00", "\\ud83d\\"),
    "\\ud83d\\u",
    *("\\ud800\\ud800", "\\ud800\\udbff", "\\udbff\\ue000", "\\udc00\\udc00", "\\udfff\\udfff", "\\udc00\\udfff"),
    *("\\ud83d\\ude0", "\\ud83d\\n", "\\dude00", "\\u\uff11\uff11\uff11\uff11", "\\a", "\\e", "\\\n", "\\é", "\\u00zz"),
    *("\n", "\t", "\0", "\r", "\x01", "\x1f", '"', '"x', '","', '"}', "\\u0@41", "\\u004G", "\\u00`1", "\\u:000"),
)


def plain_string(chance: Random) -> str:
    """Words and figures of any length, a few escapes."""
    roll = chance.random()
    if roll < 0.85:
        return f'"{plain_text(chance)}"'
    if roll < 0.92:
        return json.dumps(chance.choice(WORDS) * chance.randrange(4))
    before, after = chance.randrange(20), chance.randrange(20)
    return f'"{figures(chance, before)}{chance.choice(_PLAIN_ESCAPES)}{figures(chance, after)}"'


def edge_string(chance: Random) -> str:
    """Escapes and characters of every length, at any distance of each other."""
    return f'"{pieces(chance, _EDGE_PIECES)}"'


def broken_string(chance: Random) -> str:
    """A string with a bad escape, a control character, a quote too many, or bytes that are no UTF-8."""
    broken = _BROKEN_PIECES if chance.random() < 0.5 else BROKEN_UTF8
    whole = edge_string(chance) if chance.random() < 0.5 else f'"{figures(chance, chance.randrange(40))}"'
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
