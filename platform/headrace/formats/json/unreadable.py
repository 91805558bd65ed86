"""Values that JSON's grammar allows and no column can hold: half a surrogate pair, a number beyond float64.

orjson rejects a message for such a value anywhere in it. Here each is replaced by one of the same length that orjson
accepts, so that orjson still decides whether the rest is JSON, and at which character it is not.
"""

from __future__ import annotations

import math
import re

# possessive, and a string that is not closed ends with the text: the time is linear in the message
_TOKEN = re.compile(
    r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)'
)
_ESCAPE = re.compile(
    r"(?s)\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
_HALF = re.compile("[\ud800-\udfff]")
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_FINITE_BYTES_MAX = 4
"""Numbers of this length are finite: 9e99."""


def readable(text: str) -> str:
    """The text with values that orjson accepts in place of unreadable ones; the same text if it has none."""
    return _TOKEN.sub(_readable, text)


def half_pair(text: str) -> str | None:
    r"""The first half of a surrogate pair in a string, as its escape (`\ud83d`); None if there is none."""
    found = None if text.isascii() else _HALF.search(text)
    return f"\\u{ord(found[0]):04x}" if found else None


def _readable(token: re.Match[str]) -> str:
    text = token[0]
    number = token["number"]
    if number is None:
        return _ESCAPE.sub(_whole, text) if _HALF_PAIR.search(text) else text
    if len(number) <= _FINITE_BYTES_MAX or not math.isinf(float(number)):
        return text
    # with an exponent, so that what follows cannot continue it
    sign = "-" if number[0] == "-" else ""
    return f"{sign}1e".ljust(len(number), "0")


def _whole(escape: re.Match[str]) -> str:
    return escape[0] if escape["half"] is None else "\\ufffd"
