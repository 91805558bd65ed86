"""A YAML file as a tree of text: every scalar keeps its text and its place, and has no type.

    compose(text, file) -> Tree(root, flaws)

Built from ruamel's parse events, so no YAML rule ever turns `no` into a bool or `123` into an int. Supports anchors,
aliases and merge keys; rejects tags. An expression that a flow collection splits at a comma is rejoined, with a flaw
whose remedy is to quote it, so that one mistake is reported once. Syntax errors get their place
and a remedy. Knows nothing of pipelines except which fields take expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

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


DEPTH_MAX = 50
_NULL = ("", "~", "null", "Null", "NULL")
_COMMENT = re.compile(r"[ \t]+#")


@dataclass(slots=True)
class Scalar:
    """A scalar: its text (None: null), its location, and its source text for mapping offsets.

    `cut`: a comment follows on the same line. `style` is `'`, `"`, `|`, `>` or "" for a plain one.
    """

    text: str | None
    location: Location
    raw: str
    style: str = ""
    cut: bool = False
    end: int = 0
    start: int = 0


@dataclass(slots=True)
class Mapping:
    """A mapping; its keys are unique."""

    entries: dict[str, Entry]
    location: Location


@dataclass(slots=True)
class Entry:
    """A key and its value."""

    key: Scalar
    value: Node


@dataclass(slots=True)
class Sequence:
    """A list."""

    items: list[Node]
    location: Location


Node = Scalar | Mapping | Sequence


@dataclass(frozen=True, slots=True)
class Tree:
    """A file's root (None if it cannot be read) and the flaws found so far."""

    root: Node | None
    flaws: list[Flaw]


def compose(text: str, file: str) -> Tree:
    """Parses a YAML text. Never raises for its content."""
    composer = _Composer(text, file)
    try:
        root = composer.document()
    except MarkedYAMLError as error:
        return Tree(None, [*composer.flaws, syntax_flaw(error, text, file, composer.near)])
    except ReaderError as error:
        return Tree(None, [_unreadable(error, text, file)])
    return Tree(root, composer.flaws)


def _unreadable(error: Any, text: str, file: str) -> Flaw:
    before = text[: error.position]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    code = ord(text[error.position])
    return Flaw(f"the character U+{code:04X} cannot stand in YAML", "remove it", Location(file, line, column))


class _StopComposingError(Exception):
    """Raised when the rest of the file cannot be read."""


@dataclass
class _Composer:
    """Converts parse events to nodes. `near` is the context for syntax errors."""

    text: str
    file: str
    flaws: list[Flaw] = field(default_factory=list)
    anchors: dict[str, Node | None] = field(default_factory=dict)
    near: Near = field(default_factory=Near)

    def document(self) -> Node | None:
        events = iter(YAML(typ="safe", pure=True).parse(self.text))
        root: Node | None = None
        documents = 0
        try:
            for event in events:
                if isinstance(event, DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        self.flaws.append(
                            Flaw("a second YAML document begins here", "one file holds one pipeline", self._at(event))
                        )
                        break
                elif isinstance(event, NodeEvent):
                    root = self._node(event, events, ())
        except _StopComposingError:
            return None
        return root

    def _at(self, event: Any) -> Location:
        return Location(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: Any, events: Iterator[Any], path: Path) -> Node:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        if len(path) > DEPTH_MAX:
            self.flaws.append(Flaw(f"nested more than {DEPTH_MAX} levels deep", None, self._at(event)))
            raise _StopComposingError
        if event.tag is not None:
            remedy = QUOTE if takes_expression(path) else "write the value without it"
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self.flaws.append(Flaw(f"YAML tags such as {tag} are not used here", remedy, self._at(event), path))
        if event.anchor is not None:
            # None until the node is complete: an alias inside of it would be recursive
            self.anchors[event.anchor] = None
        node: Node
        if isinstance(event, MappingStartEvent):
            node = self._mapping(event, events, path)
        elif isinstance(event, SequenceStartEvent):
            node = self._sequence(event, events, path)
        else:
            node = self._scalar(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _alias(self, event: Any) -> Node:
        node = self.anchors.get(event.anchor)
        if node is not None:
            return node
        path = self.near.path
        if takes_expression(path):
            flaw = Flaw(f"YAML reads *{event.anchor} as an alias", QUOTE, self._at(event), path)
        elif event.anchor in self.anchors:
            flaw = Flaw(f"the alias *{event.anchor} stands inside of what it names", None, self._at(event), path)
        else:
            flaw = Flaw(f"there is no anchor &{event.anchor}", "define it above", self._at(event), path)
        self.flaws.append(flaw)
        return Scalar(None, self._at(event), "")

    def _scalar(self, event: ScalarEvent) -> Scalar:
        start, end = event.start_mark.index, event.end_mark.index
        style = event.style or ""
        text = None if not style and event.value in _NULL else str(event.value)
        if style in ("'", '"') and event.end_mark.line > event.start_mark.line:
            self.near.quoted, self.near.quoted_end = self._at(event), event.end_mark.line
        cut = not style and _COMMENT.match(self.text, end) is not None
        return Scalar(text, self._at(event), self.text[start:end], style, cut, end, start)

    def _mapping(self, event: Any, events: Iterator[Any], path: Path) -> Mapping:
        pairs: list[tuple[Scalar, Node]] = []
        merged: list[Node] = []
        for start in events:
            if isinstance(start, MappingEndEvent):
                break
            key = self._node(start, events, path)
            if not isinstance(key, Scalar):
                self.flaws.append(Flaw("a key is text, not a list or mapping", QUOTE, self._at(start), path))
                raise _StopComposingError
            name = key.text or ""
            self.near.path, self.near.line = (*path, name), start.start_mark.line
            value = self._node(next(events), events, (*path, name))
            if name == "<<" and not key.style:
                merged.append(value)
            else:
                pairs.append((key, value))
        if event.flow_style:
            pairs = self._rejoined_pairs(pairs, path)
        return Mapping(self._entries(pairs, merged, path), self._at(event))

    def _entries(self, pairs: list[tuple[Scalar, Node]], merged: list[Node], path: Path) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for key, value in pairs:
            name = key.text or ""
            if name in entries:
                first = entries[name].key.location.line
                message = f"duplicate key {name!r}: it is already in line {first}"
                self.flaws.append(Flaw(message, "keep one of them", key.location, (*path, name)))
            else:
                entries[name] = Entry(key, value)
        for source in merged:
            for node in source.items if isinstance(source, Sequence) else [source]:
                if isinstance(node, Mapping):
                    for name, entry in node.entries.items():
                        # merge keys (YAML 1.1): the mapping's own keys win, then earlier sources
                        entries.setdefault(name, entry)
                else:
                    self.flaws.append(
                        Flaw("<< merges mappings only", "name an anchor of a mapping", node.location, path)
                    )
        return entries

    def _sequence(self, event: Any, events: Iterator[Any], path: Path) -> Sequence:
        items: list[Node] = []
        for start in events:
            if isinstance(start, SequenceEndEvent):
                break
            items.append(self._node(start, events, (*path, str(len(items)))))
        if event.flow_style:
            items = self._rejoined_items(items, path)
        return Sequence(items, self._at(event))

    def _rejoined_pairs(self, pairs: list[tuple[Scalar, Node]], path: Path) -> list[tuple[Scalar, Node]]:
        """Rejoins pairs: `{a: round(x, 2)}` is parsed as a: `round(x` and `2)`: null."""
        result: list[tuple[Scalar, Node]] = []
        for key, value in pairs:
            before = result[-1][1] if result else None
            empty = isinstance(value, Scalar) and value.text is None and not value.raw
            if empty and _is_open(before):
                result[-1] = (result[-1][0], self._joined(before, key))
            else:
                self._report(result[-1] if result else None, path)
                result.append((key, value))
        self._report(result[-1] if result else None, path)
        return result

    def _report(self, pair: tuple[Scalar, Node] | None, path: Path) -> None:
        if pair and isinstance(pair[1], Scalar) and pair[1].style == JOINED:
            self._cut_flaw(pair[1], (*path, pair[0].text or ""))

    def _rejoined_items(self, items: list[Node], path: Path) -> list[Node]:
        """Rejoins items: `[decimal(10, 2)]` is parsed as `decimal(10` and `2)`."""
        result: list[Node] = []
        for item in items:
            before = result[-1] if result else None
            if isinstance(item, Scalar) and not item.style and _is_open(before):
                result[-1] = self._joined(before, item)
            else:
                result.append(item)
        for index, node in enumerate(result):
            if isinstance(node, Scalar) and node.style == JOINED:
                self._cut_flaw(node, (*path, str(index)))
        return result

    def _joined(self, before: Node | None, piece: Scalar) -> Scalar:
        assert isinstance(before, Scalar), "only scalars are open"
        raw = self.text[before.start : piece.end]
        return Scalar(raw, before.location, raw, JOINED, piece.cut, piece.end, before.start)

    def _cut_flaw(self, node: Scalar, path: Path) -> None:
        message = f"inside {{ }} and [ ] a comma ends a value, and cuts {node.text!r} apart"
        remedy = f'quote this expression: "{node.text}"' if '"' not in node.raw else QUOTE
        self.flaws.append(Flaw(message, remedy, node.location, path))


JOINED = ","
"""Style of a rejoined scalar."""


def _is_open(node: Node | None) -> bool:
    return (
        isinstance(node, Scalar) and node.style in ("", JOINED) and node.text is not None and unbalanced(node.text) > 0
    )
