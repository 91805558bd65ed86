"""Patterns: `like` and regular expressions. A pattern is a literal: it is compiled once, and rejected before any
row."""

from __future__ import annotations

import re

import polars as pl

from headrace.core.errors import ExpressionError
from headrace.core.types import Primitive
from headrace.expr.terms.term import Term, combine, with_type


def like(term: Term, pattern: Term, *, escape: str | None, ignore_case: bool) -> Term:
    """`x like 'a%_'`: `%` matches any text, `_` any one character; there is no escape character by default."""
    text = as_string(term, "like")
    if pattern.type is None:
        return combine([text], Primitive.BOOL, pl.lit(None, dtype=pl.Boolean), nullable=True)
    body = literal_text(pattern, "the pattern of like")
    value = _match(text.value, body, escape, ignore_case=ignore_case)
    return combine([text], Primitive.BOOL, value)


def _match(text: pl.Expr, body: str, escape: str | None, *, ignore_case: bool) -> pl.Expr:
    inner = body.strip("%")
    if not ignore_case and escape is None and "_" not in body and "%" not in inner:
        start, end = body.startswith("%"), body.endswith("%")
        if not start and not end:
            return text == body
        if start and end:
            return text.str.contains(inner, literal=True)
        return text.str.ends_with(inner) if start else text.str.starts_with(inner)
    flags = "(?is)" if ignore_case else "(?s)"
    return text.str.contains(f"{flags}^{_regex(body, escape)}$")


def _regex(body: str, escape: str | None) -> str:
    parts: list[str] = []
    characters = iter(body)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise ExpressionError("the pattern ends with its escape character")
            parts.append(re.escape(escaped))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join(parts)


def checked_regex(pattern: Term) -> str:
    """The text of a literal regular expression. Raises ExpressionError if it is not valid."""
    body = literal_text(pattern, "a regular expression")
    try:
        pl.Series([""]).str.contains(body, strict=True)
    except pl.exceptions.ComputeError as error:
        reason = [line for line in str(error).splitlines() if line.startswith("error:")]
        detail = reason[0].removeprefix("error: ") if reason else "it does not compile"
        raise ExpressionError(f"{body!r} is not a regular expression: {detail}") from error
    return body


def as_string(term: Term, what: str) -> Term:
    """The term, if it is a string; an untyped NULL becomes one."""
    if term.type is None and term.interval is None:
        return with_type(term, Primitive.STRING)
    if term.type != Primitive.STRING:
        raise ExpressionError(f"{what} needs a string, not {term.type_name}", remedy="cast it: cast(x as string)")
    return term


def literal_text(term: Term, what: str) -> str:
    """The text of a string literal."""
    if not isinstance(term.literal, str):
        raise ExpressionError(f"{what} must be a string literal", remedy="write it in single quotes")
    return term.literal


def literal_integer(term: Term, what: str) -> int:
    """The value of an integer literal."""
    if not isinstance(term.literal, int) or isinstance(term.literal, bool):
        raise ExpressionError(f"{what} must be an integer literal")
    return term.literal
