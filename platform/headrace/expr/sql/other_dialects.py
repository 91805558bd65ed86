"""Features of other SQL systems that expressions lack, each with its replacement here. Messages only."""

from __future__ import annotations

from sqlglot import exp

_PATTERN = "use regexp_matches(s, 'pattern'), or like"
_MEMBER = "use list_contains(list, x)"
_PERCENTILE = "use quantile_cont(x, 0.95), or median(x)"
_COALESCE = "use coalesce(a, b)"
_LENGTH = "use length(s)"
_NOW = "use now(), the row's event time"
_TODAY = "use cast(now() as date), the day of the row's event time"

FOREIGN_OPERATORS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Any: ("any (..) is not part of expressions", _MEMBER),
    exp.RegexpLike: ("operators with regular expressions (`~`) are not part of expressions", _PATTERN),
    exp.RegexpILike: (
        "operators with regular expressions (`~*`) are not part of expressions",
        "use regexp_matches(s, '(?i)pattern'), or ilike",
    ),
    exp.SimilarTo: ("`similar to` is not part of expressions", _PATTERN),
    exp.ArrayOverlaps: ("`&&` is not part of expressions", "use and"),
    exp.Glob: ("`glob` is not part of expressions", _PATTERN),
}
"""Message and remedy for nodes that parse but are not part of the language."""

FOREIGN_NAMES: dict[str, str] = {
    "all": _MEMBER,
    "approx_percentile": _PERCENTILE,
    "percentile": _PERCENTILE,
    "percentile_cont": _PERCENTILE,
    "quantile": _PERCENTILE,
    "quantile_disc": _PERCENTILE,
    "isnull": "use x is null",
    "nvl": _COALESCE,
    "char_length": _LENGTH,
    "some": _MEMBER,
    "array_contains": _MEMBER,
    "current_timestamp": _NOW,
    "localtimestamp": _NOW,
    "getdate": _NOW,
    "sysdate": _NOW,
    "current_date": _TODAY,
    "today": _TODAY,
}
"""Remedy for functions and keywords, in lower case, that do not exist here."""
