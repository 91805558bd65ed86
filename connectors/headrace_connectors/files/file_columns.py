"""Whether a file that names its columns (CSV with a header, Parquet) is one that the schema describes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.core.errors import UserError, did_you_mean
from headrace.core.types import Schema

NAMES_SHOWN = 20
NAME_CHARACTERS_SHOWN = 40
OTHER_DELIMITERS = (";", "\t", "|", ",")


def remark_on_columns(path: Path, names: Sequence[str], schema: Schema) -> str | None:
    """A remark for users on a file with these columns; None if it has all of the schema.

    Raises UserError if it has none of them, or lacks one that is not null.
    """
    missing = [item for item in schema if item.name not in names]
    if not missing:
        return None
    if len(missing) == len(schema.names):
        raise UserError(
            f"{path} has no column of the schema\n  it has: {_listed(names)}\n"
            f"  the schema has: {_listed(schema.names)}",
            remedy=_other_reading(names, schema) or "name the columns in the schema as the file does",
        )
    for item in missing:
        if not item.nullable:
            hint = did_you_mean(item.name, names)
            raise UserError(
                f"{path} has no column {item.name!r}, which is not null", remedy=hint or f"it has {_listed(names)}"
            )
    lacked = _listed([item.name for item in missing])
    return f"{path} has no column {lacked}: NULL in all of its rows; it has {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    more = f", .. ({len(names)})" if len(names) > NAMES_SHOWN else ""
    return ", ".join(name[:NAME_CHARACTERS_SHOWN] for name in names[:NAMES_SHOWN]) + more


def _other_reading(names: Sequence[str], schema: Schema) -> str | None:
    """The remedy if another delimiter, or another case, would give names of the schema."""
    for delimiter in OTHER_DELIMITERS:
        if len(names) == 1 and {name.strip() for name in names[0].split(delimiter)} & set(schema.names):
            shown = "\\t" if delimiter == "\t" else delimiter
            return f'set `delimiter: "{shown}"`'
    folded = {name.casefold(): name for name in names}
    for name in schema.names:
        if (own := folded.get(name.casefold())) is not None:
            return f"names are case-sensitive: write {own!r} for {name!r} in the schema, and the others likewise"
    return None
