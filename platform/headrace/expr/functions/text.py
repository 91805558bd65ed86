"""Strings: characters are Unicode code points, and positions count from 1."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from headrace.core.errors import ExpressionError
from headrace.core.types import ListOf, Primitive
from headrace.expr.functions.overload import Function, Kind, Overload, plain
from headrace.expr.terms.pattern import checked_regex, literal_integer, literal_text
from headrace.expr.terms.term import Term

_S = Kind.STRING
LENGTH_MAX = 65_536


def _one(name: str, describes: str, build: Callable[[pl.Expr], pl.Expr]) -> Function:
    return Function(name, describes, (Overload((_S,), Primitive.STRING, plain(build)),))


def _length(value: pl.Expr) -> pl.Expr:
    return value.str.len_chars().cast(pl.Int64)


def _trim(name: str, describes: str, build: Callable[[pl.Expr, str], pl.Expr]) -> Function:
    def characters(term: Term, cut: Term) -> pl.Expr:
        given = literal_text(cut, "the characters to cut")
        return build(term.value, given) if given else term.value

    return Function(
        name,
        f"{describes} without spaces, or without the given characters",
        (
            Overload((_S,), Primitive.STRING, lambda term: build(term.value, " ")),
            Overload((_S, Kind.TEXT), Primitive.STRING, characters),
        ),
    )


def _bounded(value: pl.Expr) -> pl.Expr:
    """Positions and counts clipped to +-2^40, so that their sums cannot overflow; no string is that long."""
    return value.clip(-(1 << 40), 1 << 40)


def _substring(text: pl.Expr, start: pl.Expr, count: pl.Expr | None) -> pl.Expr:
    """DuckDB's rule: a negative start counts from the end; a negative length selects the characters before the
    start."""
    size = _length(text)
    begin = _bounded(start)
    first = pl.when(begin < 0).then(size + begin).otherwise(begin - 1)
    if count is None:
        low, high = first, size
    else:
        reach = _bounded(count)
        low = pl.when(reach < 0).then(first + reach).otherwise(first)
        high = pl.when(reach < 0).then(first).otherwise(first + reach)
    low, high = low.clip(0, None), high.clip(0, None)
    return text.str.slice(low, (high - low).clip(0, None))


def _sliced(term: Term, start: Term, count: Term | None = None) -> pl.Expr:
    """Substring. A literal start at or after the first character, the common case, is a plain slice."""
    first, size = start.literal, None if count is None else count.literal
    if isinstance(first, int) and first > 0:
        if count is None:
            return term.value.str.slice(first - 1)
        if isinstance(size, int) and size >= 0:
            return term.value.str.slice(first - 1, size)
    return _substring(term.value, start.value, None if count is None else count.value)


def _left_of(term: Term, count: Term) -> pl.Expr:
    if isinstance(count.literal, int) and count.literal >= 0:
        return term.value.str.slice(0, count.literal)
    return _left(term.value, count.value)


def _left(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    number = _bounded(count)
    return text.str.slice(0, pl.when(number < 0).then(_length(text) + number).otherwise(number).clip(0, None))


def _right(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    number = _bounded(count)
    size = _length(text)
    kept = pl.when(number < 0).then(size + number).otherwise(number).clip(0, None)
    return text.str.slice((size - kept).clip(0, None), kept)


def _replace(term: Term, old: Term, new: Term) -> pl.Expr:
    searched, text = literal_text(old, "the text to replace"), literal_text(new, "the new text")
    return term.value.str.replace_all(searched, text, literal=True) if searched else term.value


def _find(term: Term, part: Term) -> pl.Expr:
    searched = literal_text(part, "the text to find")
    if not searched:
        return pl.when(term.value.is_not_null()).then(pl.lit(1, dtype=pl.Int64))
    before = term.value.str.splitn(searched, 2).struct.field("field_0")
    found = term.value.str.contains(searched, literal=True)
    return (
        pl.when(found)
        .then(_length(before) + 1)
        .otherwise(pl.when(term.value.is_not_null()).then(pl.lit(0, dtype=pl.Int64)))
    )


def _split(term: Term, separator: Term) -> pl.Expr:
    return term.value.str.split(literal_text(separator, "the separator"))


def _split_part(term: Term, separator: Term, number: Term) -> pl.Expr:
    given = literal_text(separator, "the separator")
    wanted = literal_integer(number, "the number of the part")
    parts = term.value.str.split(given) if given else pl.concat_list(term.value)
    if wanted == 0:
        return pl.when(term.value.is_not_null()).then(pl.lit(""))
    part = parts.list.get(wanted - 1 if wanted > 0 else wanted, null_on_oob=True)
    return pl.when(term.value.is_not_null()).then(part.fill_null(""))


def _pad(*, left: bool) -> Callable[[Term, Term, Term], pl.Expr]:
    def build(term: Term, count: Term, fill: Term) -> pl.Expr:
        size = _count(count)
        filler = literal_text(fill, "the text to fill with")
        if not filler:
            raise ExpressionError("the text to fill with is empty")
        filling = pl.lit((filler * size)[:size]).str.slice(0, (size - _length(term.value)).clip(0, None))
        kept = term.value.str.slice(0, size)
        return pl.concat_str(filling, kept) if left else pl.concat_str(kept, filling)

    return build


def _count(term: Term) -> int:
    count = literal_integer(term, "the length")
    if count > LENGTH_MAX:
        raise ExpressionError(f"a length of {count} is more than {LENGTH_MAX}")
    return max(0, count)


def _repeat(term: Term, count: Term) -> pl.Expr:
    times = _count(count)
    repeated = term.value.repeat_by(times).list.join("") if times else pl.lit("")
    return pl.when(term.value.is_not_null()).then(repeated)


def _regex_matches(term: Term, pattern: Term) -> pl.Expr:
    return term.value.str.contains(checked_regex(pattern))


def _regex_extract(term: Term, pattern: Term, group: Term | None = None) -> pl.Expr:
    body = checked_regex(pattern)
    number = 0 if group is None else literal_integer(group, "the group")
    groups = pl.select(pl.lit("").str.extract_groups(body)).to_series().struct.fields if "(" in body else []
    if not 0 <= number <= len(groups):
        raise ExpressionError(f"the expression has {len(groups)} groups, not {number}")
    found = term.value.str.extract(body, number)
    return pl.when(term.value.is_not_null()).then(found.fill_null(""))


def _regex_replace(term: Term, pattern: Term, new: Term, flags: Term | None = None) -> pl.Expr:
    body, text = checked_regex(pattern), literal_text(new, "the replacement")
    given = "" if flags is None else literal_text(flags, "the flags")
    if set(given) - set("gims"):
        raise ExpressionError(f"{given!r}: flags are g (all places), i (ignore case), m, s")
    inline = "".join(flag for flag in "ims" if flag in given)
    body = f"(?{inline}){body}" if inline else body
    replacement = _references(text)
    if "g" in given:
        return term.value.str.replace_all(body, replacement)
    return term.value.str.replace(body, replacement)


def _references(text: str) -> str:
    r"""`\1` refers to a group, as in DuckDB; `$` is literal."""
    parts: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "\\")
            parts.append(f"${{{following}}}" if following.isdigit() else following.replace("$", "$$"))
        else:
            parts.append(character.replace("$", "$$"))
    return "".join(parts)


def _found(name: str, describes: str, build: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Function:
    return Function(name, describes, (Overload((_S, _S), Primitive.BOOL, plain(build)),))


def _encoded(name: str, describes: str, build: Callable[[pl.Expr], pl.Expr]) -> Function:
    return Function(
        name,
        describes,
        (
            Overload((_S,), Primitive.STRING, lambda term: build(term.value.cast(pl.Binary))),
            Overload((Kind.BINARY,), Primitive.STRING, plain(build)),
        ),
    )


def _json_text(term: Term, path: Term) -> pl.Expr:
    given = literal_text(path, "the path")
    if not given.startswith("$"):
        raise ExpressionError(f"the path {given!r} does not begin with $", remedy="write '$.field' or '$.list[0]'")
    return term.value.str.json_path_match(given)


_LENGTH = (
    Overload((_S,), Primitive.INT64, plain(_length)),
    Overload((Kind.LIST,), Primitive.INT64, plain(lambda x: x.list.len().cast(pl.Int64))),
)
_SUBSTRING = (
    Overload((_S, Kind.INT), Primitive.STRING, _sliced),
    Overload((_S, Kind.INT, Kind.INT), Primitive.STRING, _sliced),
)
_STRPOS = (Overload((_S, Kind.TEXT), Primitive.INT64, _find),)

TEXT: tuple[Function, ...] = (
    _one("lower", "in lower case", lambda x: x.str.to_lowercase()),
    _one("lcase", "lower", lambda x: x.str.to_lowercase()),
    _one("upper", "in upper case", lambda x: x.str.to_uppercase()),
    _one("ucase", "upper", lambda x: x.str.to_uppercase()),
    Function("length", "characters of a string, elements of a list", _LENGTH),
    Function("len", "length", _LENGTH),
    _trim("trim", "the text", lambda x, cut: x.str.strip_chars(cut)),
    _trim("ltrim", "the text, at its start,", lambda x, cut: x.str.strip_chars_start(cut)),
    _trim("rtrim", "the text, at its end,", lambda x, cut: x.str.strip_chars_end(cut)),
    Function("substring", "from a place on, so many characters; a negative place counts from the end", _SUBSTRING),
    Function("substr", "substring", _SUBSTRING),
    Function(
        "left",
        "the first n characters; all but the last -n",
        (Overload((_S, Kind.INT), Primitive.STRING, _left_of),),
    ),
    Function(
        "right",
        "the last n characters; all but the first -n",
        (Overload((_S, Kind.INT), Primitive.STRING, plain(_right)),),
    ),
    Function(
        "replace",
        "with each occurrence of a text replaced",
        (Overload((_S, Kind.TEXT, Kind.TEXT), Primitive.STRING, _replace),),
    ),
    _found("contains", "whether the text holds another", lambda x, part: x.str.contains(part, literal=True)),
    _found("starts_with", "whether the text begins with another", lambda x, part: x.str.starts_with(part)),
    _found("ends_with", "whether the text ends with another", lambda x, part: x.str.ends_with(part)),
    Function("strpos", "place of the first occurrence, 0 for none", _STRPOS),
    Function("instr", "strpos", _STRPOS),
    Function(
        "split",
        "the parts between separators, as a list",
        (Overload((_S, Kind.TEXT), ListOf(Primitive.STRING), _split),),
    ),
    Function(
        "split_part",
        "the n-th part between separators, from the end for negative n; '' where there is none",
        (Overload((_S, Kind.TEXT, Kind.COUNT), Primitive.STRING, _split_part),),
    ),
    Function(
        "lpad",
        "cut or filled at the left to n characters",
        (Overload((_S, Kind.COUNT, Kind.TEXT), Primitive.STRING, _pad(left=True)),),
    ),
    Function(
        "rpad",
        "cut or filled at the right to n characters",
        (Overload((_S, Kind.COUNT, Kind.TEXT), Primitive.STRING, _pad(left=False)),),
    ),
    _one("reverse", "the characters in reverse order", lambda x: x.str.reverse()),
    Function("repeat", "n times in a row", (Overload((_S, Kind.COUNT), Primitive.STRING, _repeat),)),
    Function(
        "regexp_matches",
        "whether a regular expression matches anywhere",
        (Overload((_S, Kind.TEXT), Primitive.BOOL, _regex_matches),),
    ),
    Function(
        "regexp_extract",
        "what a regular expression, or its n-th group, matches first; '' where nothing does",
        (
            Overload((_S, Kind.TEXT), Primitive.STRING, _regex_extract),
            Overload((_S, Kind.TEXT, Kind.COUNT), Primitive.STRING, _regex_extract),
        ),
    ),
    Function(
        "regexp_replace",
        r"with the first match replaced, each one with flag g; \1 is a group",
        (
            Overload((_S, Kind.TEXT, Kind.TEXT), Primitive.STRING, _regex_replace),
            Overload((_S, Kind.TEXT, Kind.TEXT, Kind.TEXT), Primitive.STRING, _regex_replace),
        ),
    ),
    _encoded("hex", "the bytes in upper-case hexadecimal", lambda x: x.bin.encode("hex").str.to_uppercase()),
    _encoded("base64", "the bytes in base64", lambda x: x.bin.encode("base64")),
    Function("encode", "the UTF-8 bytes", (Overload((_S,), Primitive.BINARY, plain(lambda x: x.cast(pl.Binary))),)),
    Function(
        "json_extract_string",
        "the text at a path such as '$.a.b' in JSON text; NULL where there is none",
        (Overload((_S, Kind.TEXT), Primitive.STRING, _json_text, nullable=True),),
    ),
)
