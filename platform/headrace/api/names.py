"""Names in SQL text: decides which names need quotes."""

from __future__ import annotations

import functools
import re

from headrace.core.errors import UserError

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


@functools.cache
def _words() -> frozenset[str]:
    """Returns every word that the SQL tokenizer or parser does not read as a plain name."""
    from sqlglot.dialects.duckdb import DuckDB

    return frozenset(word.upper() for word in (*DuckDB.Tokenizer.KEYWORDS, *DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS))


def identifier(name: str) -> str:
    """Returns the name of a column or field as SQL, quoted if it would not parse as that name. Raises UserError."""
    if not isinstance(name, str) or not name:
        raise UserError(f"{name!r} is no column's name", remedy='write col("name"); a value is lit(..)')
    if _BARE.match(name) and name.upper() not in _words():
        return name
    return '"' + name.replace('"', '""') + '"'


def call_name(name: str) -> str:
    """Returns the name of a function for a call. Raises UserError for a text that is no name."""
    if not _BARE.match(name):
        raise UserError(f"{name!r} is no function's name", remedy='write fn("lower", col("x"))')
    return name.lower()
