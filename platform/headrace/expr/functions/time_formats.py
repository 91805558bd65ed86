"""Formats of time: times as text, and text as times, by the directives of strftime.

A format is a literal: it is checked once, before any row. One that matches no text is refused, because `strptime` with
it would fail every row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

import polars as pl

from headrace.core.errors import ExpressionError
from headrace.expr.terms.pattern import literal_text
from headrace.expr.terms.term import Term
from headrace.expr.terms.timestamps import in_range

_TOKEN = re.compile(r"%(?P<directive>.?)|\s+|[^%\s]+", re.DOTALL)
_FORMAT = {letter: f"%{letter}" for letter in "YmdHMSjaAbBypI%"} | {"f": "%6f"}
_PARSE = {letter: f"%{letter}" for letter in "YmdHMSbBypI%z"} | {"f": "%.f"}
# what chrono reads for a directive, or more: places the fraction of a second, after which chrono reads the whole text
_READ = {
    **dict.fromkeys("bB", r"[A-Za-z]+"),
    "p": r"[A-Za-z]{2}",
    "z": r"\s*[+\u{2212}-]\d{2}[\s:]*\d{2}",
    "%": "%",
    **dict.fromkeys("mdHMSyI", r"\s*\d{1,2}"),
    "Y": r"\s*(?:[+-]\d+|\d{1,4})",
}
# the same in front of digits: chrono leaves none to them that it could read itself
_READ_BEFORE_DIGITS = {
    **dict.fromkeys("mdHMSyI", r"\s*(?:\d{2}|\d\s+)"),
    "Y": r"\s*(?:\d{4}|(?:\d{1,3}|[+-]\d+)\s+)",
}
_NEEDED = ({"Y", "y"}, {"m", "b", "B"}, {"d"})
_CHECKED_MAX = 256
"""Formats of a process that are remembered: a plan compiles each expression several times."""
_SAMPLE = datetime(2023, 11, 24, 13, 45, 26, 123456, UTC)


@dataclass(frozen=True, slots=True)
class _Token:
    """A directive's letter, or other text."""

    text: str
    directive: str = ""


def format_time(term: Term, pattern: Term) -> pl.Expr:
    """`strftime(t, 'format')`."""
    return term.value.dt.to_string(_chrono(_tokens(literal_text(pattern, "the format"), _FORMAT), _FORMAT))


def parse_time(term: Term, pattern: Term) -> pl.Expr:
    """`strptime(text, 'format')`; NULL for text that does not match. Raises ExpressionError for a format that matches
    no text."""
    return _parsed(term.value, _checked(literal_text(pattern, "the format")))


@lru_cache(maxsize=_CHECKED_MAX)
def _checked(text: str) -> Sequence[_Token]:
    tokens = _tokens(text, _PARSE)
    _check(text, {token.directive for token in tokens})
    if not _matches_its_own_text(tokens):
        raise ExpressionError(
            f"the format {text!r} matches no text", remedy="separate its directives, and use each of them once"
        )
    return tokens


def _tokens(text: str, known: dict[str, str]) -> list[_Token]:
    """Raises ExpressionError for an unknown directive."""
    tokens = []
    for match in _TOKEN.finditer(text):
        letter = match["directive"]
        if letter is None:
            tokens.append(_Token(match[0]))
        elif letter in known:
            tokens.append(_Token(match[0], letter))
        else:
            valid = " ".join(f"%{name}" for name in known)
            raise ExpressionError(f"{match[0]!r} is not a directive here", remedy=f"directives: {valid}")
    return tokens


def _chrono(tokens: Sequence[_Token], known: dict[str, str]) -> str:
    return "".join(known[token.directive] if token.directive else token.text for token in tokens)


def _check(text: str, directives: set[str]) -> None:
    if not all(directives & needed for needed in _NEEDED):
        raise ExpressionError(f"the format {text!r} must hold a year, a month and a day", remedy="such as '%Y-%m-%d'")
    if "I" in directives and "p" not in directives:
        raise ExpressionError(
            f"the format {text!r} has hours of 12 (%I) without AM or PM (%p)", remedy="write %H for hours of 24"
        )
    if "p" in directives and not directives & {"I", "H"}:
        raise ExpressionError(f"the format {text!r} has AM or PM (%p) without an hour", remedy="write %I for the hour")


def _matches_its_own_text(tokens: Sequence[_Token]) -> bool:
    """Whether the text of a time in this format is read."""
    sample = pl.Series([_SAMPLE], dtype=pl.Datetime("us", "UTC"))
    written = {**_PARSE, "f": "%6f"}
    try:
        found = pl.select(_parsed(pl.lit(sample).dt.to_string(_chrono(tokens, written)), tokens)).item()
    except pl.exceptions.ComputeError:  # polars refuses the format
        return False
    return found is not None


def _parsed(value: pl.Expr, tokens: Sequence[_Token]) -> pl.Expr:
    directives = [token.directive for token in tokens]
    chrono = _chrono(tokens, _PARSE)
    if "f" in directives:
        place = directives.index("f")
        if place and tokens[place - 1].text.endswith(".") and not tokens[place - 1].directive:
            before = _chrono(tokens[:place], _PARSE).removesuffix(".")
            chrono = before + _chrono(tokens[place:], _PARSE)
        else:
            value = _with_point(value, tokens[:place])
    # chrono parses no time without hour and minute, and no fraction without a second: zeros are appended
    missing = {"%H": not {"H", "I"} & {*directives}, "%M": "M" not in directives}
    missing["%S"] = "f" in directives and "S" not in directives
    for directive in (name for name, is_missing in missing.items() if is_missing):
        chrono, value = f"{chrono} {directive}", pl.concat_str(value, pl.lit(" 00"))
    parsed = value.str.to_datetime(chrono, time_unit="us", strict=False, exact=True)
    if "z" not in directives:
        parsed = parsed.dt.replace_time_zone("UTC")
    return pl.when(in_range(parsed.to_physical())).then(parsed)


def _with_point(value: pl.Expr, before: Sequence[_Token]) -> pl.Expr:
    """Text with a point in front of its fraction, the only form in which chrono reads one of any length; NULL where
    there is no fraction behind `before`."""
    digits = rf"(?s)^({_regex(before)})(\d)"
    return pl.when(value.str.contains(digits)).then(value.str.replace(digits, "${1}.${2}"))


def _regex(tokens: Sequence[_Token]) -> str:
    parts: list[str] = []
    is_before_digits = True
    for token in reversed(tokens):
        letter = token.directive
        if letter:
            parts.append(_READ_BEFORE_DIGITS.get(letter, _READ[letter]) if is_before_digits else _READ[letter])
            is_before_digits = letter in _READ_BEFORE_DIGITS
        elif token.text.isspace():  # chrono reads any blanks, or none, for blanks
            parts.append(r"\s*")
        else:
            parts.append(re.escape(token.text))
            is_before_digits = token.text[0].isdigit()
    return "".join(reversed(parts))
