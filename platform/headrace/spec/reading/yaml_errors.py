"""YAML syntax errors for users: the problem, its place and a remedy; and the test for text that a comma has split."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ruamel.yaml.error import MarkedYAMLError

from headrace.core.errors import Location
from headrace.spec.findings import Path
from headrace.spec.verbs.table import VERBS

QUOTE = "quote this expression"


@dataclass(frozen=True, slots=True)
class Flaw:
    """A problem in the text of a file, at a place; `path` if it is known."""

    message: str
    remedy: str | None
    location: Location
    path: Path = ()


@dataclass(slots=True)
class Near:
    """The context of an error: the last key read (its path, its line from 0), and the last quoted text that spans lines
    (its begin, its last line)."""

    path: Path = ()
    line: int = 0
    quoted: Location | None = None
    quoted_end: int = -1


def takes_expression(path: Path) -> bool:
    """Whether the field at this path, or an enclosing one, takes an expression or a type."""
    match path:
        case ("steps", _, verb, *rest) if verb in VERBS:
            above = VERBS[verb].EXPRESSIONS
            return above is not None and tuple(rest[: len(above)]) == above
        case ("sources", _, "schema", *_) | ("sources", _, "time", "value", *_):
            return True
        case _:
            return False


def unbalanced(text: str) -> int:
    """Brackets that `text` opens and does not close (negative: closes without opening); an open quote counts as one."""
    depth = 0
    quote = ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
    return depth + 1 if quote and depth >= 0 else depth


def syntax_flaw(error: MarkedYAMLError, text: str, file: str, near: Near) -> Flaw:
    """The flaw for a syntax error."""
    mark = error.problem_mark or error.context_mark
    line, column, index = (mark.line, mark.column, mark.index) if mark else (0, 0, 0)
    location = Location(file, line + 1, column + 1)
    path, key_line = near.path, near.line
    if near.quoted and near.quoted_end == line:
        message = f"the quote that is opened here is closed only in line {line + 1}"
        return Flaw(message, "close it where the value ends", near.quoted, path)
    if text[index : index + 1] == "{" and text[index - 1 : index] == "$":
        end = text.find("}", index)
        name = text[index - 1 : end + 1] if end > 0 and "\n" not in text[index:end] else "${..}"
        return Flaw(
            f"inside {{ }} and [ ] YAML reads the brace of {name} as its own",
            f'quote it: "{name}"',
            Location(file, line + 1, column),
            path,
        )
    what, remedy = _words(error, text[index : index + 1])
    if key_line == line and "<block end>" in (error.problem or ""):
        what, remedy = "the value before this has already ended", "quote all of it"
    if takes_expression(path) and key_line == line and text[index : index + 1] != "\t":
        remedy = QUOTE
    return Flaw(what, remedy, _start(error, file) or location, path)


def _start(error: MarkedYAMLError, file: str) -> Location | None:
    """The place of the opening for an unclosed construct, of the line's begin for a line without a colon."""
    problem = error.problem or ""
    open_ended = any(words in problem for words in ("end of stream", "<stream end>", "could not find expected ':'"))
    mark = error.context_mark
    return Location(file, mark.line + 1, mark.column + 1) if open_ended and mark else None


_SAYINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"mapping values are not allowed",
        "a ':' is not allowed here",
        "quote the value if it holds ': ', or check the indentation",
    ),
    (r"sequence entries are not allowed", "a list entry '-' is not allowed here", "put it on a line of its own"),
    (
        r"could not find expected ':'",
        "this line is no `key: value`",
        "add a colon and a space after the key, or indent it if it goes on with the line above",
    ),
    (r"quoted.*end of stream", "a quote is opened here and never closed", "close it"),
    (r"flow.*<stream end>", "a bracket is opened here and never closed", "close it"),
    (r"flow mapping", "a ',' or '}' is missing before this", "close the bracket, or quote the value"),
    (r"flow sequence", "a ',' or ']' is missing before this", "close the bracket, or quote the value"),
    (r"block scalar", "a value that begins with | or > is a block of the lines below", "quote the value"),
    (r"<block end>", "this does not fit the lines above", "check the indentation, or quote the value"),
)
"""Pattern over ruamel's context and problem -> message, remedy."""


def _words(error: MarkedYAMLError, char: str) -> tuple[str, str]:
    said = f"{error.context or ''} {error.problem or ''}".strip()
    if "cannot start any token" in said:
        if char == "\t":
            return "a tab stands where YAML wants spaces", "indent with spaces"
        return f"a value cannot begin with {char!r}", "quote the value"
    if "unknown escape" in said:
        return f"\\{char} is no escape in a double-quoted text", "use single quotes, or write two backslashes"
    for pattern, what, remedy in _SAYINGS:
        if re.search(pattern, said):
            return what, remedy
    return f"this is not YAML: {said}", "check the indentation and the quotes"
