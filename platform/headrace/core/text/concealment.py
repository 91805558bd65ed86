"""Hides the values of a pipeline's variables in texts that leave a process: each is shown as `${NAME}`. Pure.

The values are secrets as far as anybody knows. An error that quotes one comes from many places, also from client
libraries, and may quote it changed: escaped, encoded for a URL, shortened, in lower case, or one word of it. So texts
are searched for the values where they leave, instead of following the values through every message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.core.errors import HeadraceError, InvalidPipelineError, Problem

HiddenTexts = Mapping[str, tuple[str, ...]]
"""Name of a variable -> the texts that are hidden: its value, then the words of it that are hidden alone."""

WORD_CHARS_MIN = 4
"""A shorter text is hidden between quotes only: it would match everywhere, and protects nothing."""
ANYWHERE_CHARS_MIN = 6
"""A shorter text is hidden as a whole word only."""
PIECE_CHARS = 8
"""So many characters in a row of a value are hidden, too: messages shorten what they quote."""
PIECES_FROM_CHARS = 12
"""Pieces of shorter values are not hidden: their words are enough."""
NUMBER_CHARS_MIN = 6
"""A shorter number is no word to hide: it is a port, a year, a size."""
NAMES_MAX = 256
"""Most variables of a pipeline whose values are hidden in texts of its job."""

_WORD = re.compile(r"[^\W_]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_BETWEEN = re.compile(r"[\W_]{0,3}\Z")
_WORD_STARTS = r"(?:(?<![^\W_])|(?<=%[0-9a-f]{2})|(?<=\\[nrtbfv])|(?<=\\x[0-9a-f]{2})|(?<=\\u[0-9a-f]{4}))"
"""Not amid a word. The letters and digits that end an escape, as in `%20` and `\\n`, belong to no word."""
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def hidden_texts(values: Mapping[str, str], public: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The texts to hide for these values. public: texts that everybody may read, such as the rest of the file: a value
    or a word that stands there is not hidden."""
    shown = "\n".join(public)
    known = {word.casefold() for word in _WORD.findall(shown)}
    hidden: dict[str, tuple[str, ...]] = {}
    for name, value in list(values.items())[:NAMES_MAX]:
        if not value.strip() or _stands_in(value.strip(), shown):
            continue
        words = _WORD.findall(_SCHEME.sub("", value, count=1))
        alone = [word for word in words if _is_telling(word) and word.casefold() not in known]
        hidden[name] = (value, *dict.fromkeys(word for word in alone if word != value))
    return hidden


def _stands_in(value: str, text: str) -> bool:
    return re.search(rf"(?<![^\W_]){re.escape(value)}(?![^\W_])", text, re.IGNORECASE) is not None


def _is_telling(word: str) -> bool:
    return len(word) >= (NUMBER_CHARS_MIN if word.isdigit() else WORD_CHARS_MIN)


class Concealment:
    """Hides texts of a pipeline's variables. Empty: returns everything as it is."""

    def __init__(self, hidden: HiddenTexts) -> None:
        self._patterns = [(name, _pattern(texts)) for name, texts in hidden.items() if texts]
        self._pieces = {piece: name for name, texts in hidden.items() if texts for piece in _pieces(texts[0])}

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def text(self, text: str) -> str:
        """The text without the values."""
        if not self._patterns:
            return text
        shown, end, before = "", 0, ""
        for start, stop, name in _merged(sorted(self._found(text))):
            between = text[end:start]
            if not (name == before and end and _BETWEEN.match(between)):
                shown += f"{between}${{{name}}}"
            end, before = stop, name
        return shown + text[end:]

    def optional(self, text: str | None) -> str | None:
        """The same for a text that may be missing."""
        return None if text is None else self.text(text)

    def problem(self, problem: Problem) -> Problem:
        """The problem without the values; its place stays."""
        path = tuple(self.text(name) for name in problem.path)
        return Problem(self.text(problem.message), path, problem.location, self.optional(problem.remedy))

    def error(self, error: HeadraceError) -> None:
        """Removes the values from an error."""
        if isinstance(error, InvalidPipelineError):
            error.problems = [self.problem(problem) for problem in error.problems]
            error.message = InvalidPipelineError(error.problems).message
        else:
            error.message = self.text(error.message)
        error.remedy = self.optional(error.remedy)
        error.args = (error.message,)

    def data(self, data: Any) -> Any:
        """Plain data whose texts are without the values. Keys stay: no variable is replaced in them."""
        match data:
            case str():
                return self.text(data)
            case Mapping():
                return {key: self.data(value) for key, value in data.items()}
            case list() | tuple():
                return [self.data(value) for value in data]
            case _:
                return data

    def _found(self, text: str) -> Iterator[tuple[int, int, str]]:
        for name, pattern in self._patterns:
            for match in pattern.finditer(text):
                yield match.start(), match.end(), name
        if self._pieces:
            folded = text.lower()
            for start in range(len(folded) - PIECE_CHARS + 1 if len(folded) == len(text) else 0):
                if (owner := self._pieces.get(folded[start : start + PIECE_CHARS])) is not None:
                    yield start, start + PIECE_CHARS, owner


def _merged(spans: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Spans that overlap as one, with the name of the first."""
    current: tuple[int, int, str] | None = None
    for start, stop, name in spans:
        if current is not None and start < current[1]:
            current = (current[0], max(stop, current[1]), current[2])
        else:
            if current is not None:
                yield current
            current = (start, stop, name)
    if current is not None:
        yield current


def _pattern(texts: Iterable[str]) -> re.Pattern[str]:
    spellings = sorted({spelling for text in texts for spelling in _spellings(text)}, key=len, reverse=True)
    return re.compile("|".join(map(_bounded, spellings)), re.IGNORECASE)


def _spellings(text: str) -> Iterator[str]:
    """How messages write a text: as it is, trimmed, escaped, in a URL."""
    trimmed = text.strip()
    yield from (text, trimmed, repr(trimmed)[1:-1], json.dumps(trimmed)[1:-1])
    encoded = "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in trimmed.encode(errors="replace"))
    yield from (encoded, encoded.replace("%20", "+"))


def _bounded(spelling: str) -> str:
    plain = re.escape(spelling)
    if len(spelling) < WORD_CHARS_MIN:
        return rf"(?<=['\"`]){plain}(?=['\"`])"
    if len(spelling) < ANYWHERE_CHARS_MIN:
        return rf"{_WORD_STARTS}{plain}(?![^\W_])"
    return plain


def _pieces(value: str) -> Iterator[str]:
    folded = _SCHEME.sub("", value.strip(), count=1).lower()
    if len(folded) >= PIECES_FROM_CHARS:
        for start in range(len(folded) - PIECE_CHARS + 1):
            yield folded[start : start + PIECE_CHARS]
