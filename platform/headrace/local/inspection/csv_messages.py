"""Infers a schema from CSV messages, which have no header: the delimiter is found, columns are numbered. Pure."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.core.errors import UserError
from headrace.local.inspection.infer import Inferred, infer_texts

DELIMITERS = (",", ";", "\t", "|")


def infer_csv_messages(messages: Iterable[bytes], where: str) -> Inferred:
    """Returns the schema of messages of one CSV row each: columns `c1`, `c2`, .. and the format with its delimiter.

    Messages with another number of fields than most are left out: they are no rows of this schema. Raises UserError if
    there is no message.
    """
    texts = [message.decode("utf-8", "replace").rstrip("\r\n") for message in messages]
    if not texts:
        raise UserError(f"{where} holds no rows to infer from")
    delimiter = delimiter_of(texts)
    rows = _split(texts, delimiter)
    width, _ = Counter(map(len, rows)).most_common(1)[0]
    kept = [row for row in rows if len(row) == width]
    names = [f"c{number}" for number in range(1, width + 1)]
    inferred = infer_texts(dict(zip(names, row, strict=True)) for row in kept)
    form = "csv" if delimiter == "," else f"{{csv: {{delimiter: {_quoted(delimiter)}}}}}"
    return replace(inferred, format=form)


def delimiter_of(texts: Sequence[str]) -> str:
    """The delimiter that gives most rows the same number of fields, at least two; a comma if none does."""
    best, best_score = DELIMITERS[0], (0, 0)
    for delimiter in DELIMITERS:
        width, count = Counter(map(len, _split(texts, delimiter))).most_common(1)[0]
        if width > 1 and (count, width) > best_score:
            best, best_score = delimiter, (count, width)
    return best


def _split(texts: Iterable[str], delimiter: str) -> list[list[str]]:
    return [row for text in texts for row in [next(csv.reader([text], delimiter=delimiter), [])] if row]


def _quoted(delimiter: str) -> str:
    return '"\\t"' if delimiter == "\t" else f'"{delimiter}"'
