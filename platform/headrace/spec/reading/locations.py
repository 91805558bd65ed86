"""Locations in a pipeline file: from paths of the data to lines and columns; and values that `--set` gives it.

`--set sources.flights.kafka.topic=x` sets values in the tree of the file before it is read. It creates missing maps on
the path, but no nodes: a name that no source, step or sink has is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

from headrace.core.errors import ExpressionError, Location, UserError, did_you_mean
from headrace.spec.findings import Finding, Path, collecting, joined
from headrace.spec.graph import GROUPS
from headrace.spec.reading.variables import Variables
from headrace.spec.reading.yaml_tree import (
    JOINED,
    QUOTE,
    Entry,
    Mapping,
    Node,
    Scalar,
    Sequence,
    compose,
    takes_expression,
    unbalanced,
)

NODES_MAX = 200_000
"""Most values in a file after expanding aliases; protects against alias bombs."""


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value in the file, its final text if it is a scalar, and the location of its key."""

    node: Node
    key: Location | None
    text: str | None = None


@dataclass(slots=True)
class Locations:
    """The place of every value. Built while the tree becomes plain data."""

    root: Location
    values: dict[Path, LocatedValue] = field(default_factory=dict)

    def locate(self, path: Path, *, on_key: bool = False) -> Location:
        """The place of `path`: of a scalar itself; of a list or mapping (or with `on_key`, of anything) its key.

        A path that is not in the file yields its nearest parent. An element of a list may be named by its text.
        """
        found = self._find(path)
        value = self.values.get(found)
        if value is None:
            return self.root
        exact = len(found) == len(path)
        if exact and not on_key and isinstance(value.node, Scalar) and value.text is not None:
            return value.node.location
        return value.key or value.node.location

    def locate_in(self, path: Path, offset: int) -> Location:
        """The place of character `offset` of the text at `path`; the text's start if the exact place is unknown."""
        found = self._find(path)
        value = self.values.get(found)
        if value is None or len(found) != len(path) or not isinstance(value.node, Scalar) or value.text is None:
            return self.locate(path)
        return _inside(value.node, value.text, offset) or value.node.location

    def _find(self, path: Path) -> Path:
        """The longest prefix of `path` that is in the file, with texts of list elements replaced by their indices."""
        found: Path = ()
        for name in path:
            here = (*found, name)
            if here not in self.values:
                index = self._index(found, name)
                if index is None:
                    return found
                here = (*found, index)
            found = here
        return found

    def _index(self, path: Path, text: str) -> str | None:
        value = self.values.get(path)
        if value is None or not isinstance(value.node, Sequence):
            return None
        indices = (str(index) for index in range(len(value.node.items)))
        return next((index for index in indices if self.values[(*path, index)].text == text), None)


@dataclass(slots=True)
class Plain:
    """Converts a tree to plain data, replaces variables, and records every place."""

    variables: Variables
    locations: Locations
    findings: list[Finding] = field(default_factory=list)

    def data(self, node: Node, path: Path = (), key: Location | None = None) -> object:
        """The plain data of a node: text, None, dict, list."""
        if len(self.locations.values) >= NODES_MAX:
            return None
        match node:
            case Mapping(entries):
                self.locations.values[path] = LocatedValue(node, key)
                kept = {name: entry for name, entry in entries.items() if path or not name.startswith("x-")}
                return {name: self.data(entry.value, (*path, name), entry.key.location) for name, entry in kept.items()}
            case Sequence(items):
                self.locations.values[path] = LocatedValue(node, key)
                return [self.data(item, (*path, str(index))) for index, item in enumerate(items)]
            case Scalar():
                text = self._text(node, path)
                self.locations.values[path] = LocatedValue(node, key, text)
                return text

    def _text(self, node: Scalar, path: Path) -> str | None:
        if node.text is None:
            return None
        if node.cut and node.style != JOINED and takes_expression(path) and _is_broken(node.text, path):
            message = f"a comment begins at the # and cuts this short: {node.text!r}"
            self.findings.append(Finding(message, QUOTE, path))
            return node.text
        with collecting(self.findings, *path):
            return self.variables.replaced(node.text, path)
        return node.text


def _is_broken(text: str, path: Path) -> bool:
    """Whether the text before a comment is an incomplete expression or type."""
    if unbalanced(text):
        return True
    if "schema" in path[2:] or path[-1].isdigit() or "${" in text:
        return False
    # the SQL parser takes longer to import than most files to read
    from headrace.expr.sql.parse import parse

    try:
        parse(text)
    except ExpressionError:
        return True
    return False


def _inside(node: Scalar, text: str, offset: int) -> Location | None:
    """Walks source and text in parallel; None if an escape or a variable makes them differ."""
    raw, at = node.raw, 0
    if node.style in ("|", ">"):
        at = raw.find("\n") + 1
    elif node.style in ("'", '"'):
        at = 1
    done = 0
    while done <= offset and done <= len(text):
        while at < len(raw) and raw[at] in " \t\r\n" and not (done < len(text) and text[done] == raw[at] != "\n"):
            at += 1
        if done == offset:
            break
        if text[done].isspace():
            at += 1 if at < len(raw) and raw[at] == text[done] and raw[at] != "\n" else 0
        elif raw[at : at + 1] == text[done]:
            at += 2 if node.style == "'" and raw[at : at + 2] == "''" else 1
        elif node.style == '"' and raw[at : at + 2] == "\\" + text[done]:
            at += 2
        else:
            return None
        done += 1
    before = raw[:at]
    lines = before.count("\n")
    if lines == 0:
        return Location(node.location.file, node.location.line, node.location.column + at)
    return Location(node.location.file, node.location.line + lines, len(before) - before.rfind("\n"))


_SEGMENT = re.compile(r'"([^"]*)"|([^."]+)')
_NULL = ("", "~", "null")


@dataclass(frozen=True, slots=True)
class SetLocation(Location):
    """A location outside of files: the `--set` that set the value. Omits the value, which may be a secret."""

    def __str__(self) -> str:
        return self.file


def apply_overrides(root: Node, settings: SequenceOf[str], top_keys: SequenceOf[str]) -> None:
    """Applies the settings to the tree in place, in order. Raises UserError for a setting that cannot be applied."""
    for setting in settings:
        path, equals, value = setting.partition("=")
        segments = _segments(path)
        if not equals or not segments:
            raise UserError(
                f"--set {path}: not `path=value`", remedy="write --set sources.<name>.<connector>.<field>=value"
            )
        if segments[0] not in top_keys:
            remedy = joined(did_you_mean(segments[0], tuple(top_keys)), f"fields: {', '.join(top_keys)}")
            raise UserError(f"--set {path}: unknown field {segments[0]!r}", remedy=remedy)
        _set(root, segments, _value(value, SetLocation(f"--set {path}", 1, 1)), path)


def _segments(path: str) -> list[str]:
    """`a.b."c.d"` -> a, b, c.d; empty for a malformed path."""
    segments: list[str] = []
    at = 0
    while at < len(path):
        match = _SEGMENT.match(path, at)
        if match is None:
            return []
        segments.append(match[1] if match[1] is not None else match[2].strip())
        at = match.end()
        if at < len(path):
            if path[at] != "." or at + 1 == len(path):
                return []
            at += 1
    return segments


def _value(text: str, location: SetLocation) -> Node:
    """The text as a scalar; text that begins with a bracket or a quote is YAML, so that lists and maps can be set."""
    if text.strip()[:1] not in ("[", "{", '"', "'"):
        return Scalar(None if text.strip() in _NULL else text, location, text)
    tree = compose(text, location.file)
    if text.strip()[0] in "'\"" and (tree.flaws or not isinstance(tree.root, Scalar)):
        return Scalar(text, location, text)  # an expression such as 'JFK' = origin
    if tree.root is None or tree.flaws:
        flaw = tree.flaws[0]
        raise UserError(f"{location}: the value is not YAML: {flaw.message}", remedy=flaw.remedy)
    return _moved(tree.root, location)


def _moved(node: Node, location: SetLocation) -> Node:
    """A copy of the node with all locations in the `--set`."""
    match node:
        case Scalar():
            return Scalar(node.text, location, node.text or "")
        case Sequence(items):
            return Sequence([_moved(item, location) for item in items], location)
        case Mapping(entries):
            return Mapping({name: _entry(name, entry.value, location) for name, entry in entries.items()}, location)


def _entry(name: str, value: Node, location: SetLocation) -> Entry:
    return Entry(Scalar(name, location, name), _moved(value, location))


def _set(root: Node, segments: SequenceOf[str], value: Node, path: str) -> None:
    here = root
    location = value.location
    assert isinstance(location, SetLocation), "made by apply_overrides"
    for depth, name in enumerate(segments):
        last = depth == len(segments) - 1
        match here:
            case Mapping(entries):
                _check_node(entries, segments, depth, path)
                old = entries.get(name)
                if last:
                    entries[name] = Entry(Scalar(name, location, name), value)
                elif old is None or (isinstance(old.value, Scalar) and old.value.text is None):
                    entries[name] = Entry(Scalar(name, location, name), Mapping({}, location))
                else:
                    entries[name] = Entry(old.key, _own(old.value))
                here = entries[name].value
            case Sequence(items):
                index = _index(items, name, segments[:depth], path)
                items[index] = value if last else _own(items[index])
                here = items[index]
            case Scalar():
                where = ".".join(segments[:depth])
                raise UserError(f"--set {path}: {where!r} holds one value, nothing stands below it")


def _own(node: Node) -> Node:
    """A copy of one level: aliases share nodes, and a setting changes only one of the places."""
    match node:
        case Mapping(entries, location):
            return Mapping(dict(entries), location)
        case Sequence(items, location):
            return Sequence(list(items), location)
        case Scalar():
            return node


def _check_node(entries: dict[str, Entry], segments: SequenceOf[str], depth: int, path: str) -> None:
    if depth == 1 and segments[0] in GROUPS and segments[1] not in entries:
        names = tuple(entries)
        remedy = joined(did_you_mean(segments[1], names), f"{segments[0]}: {', '.join(names) or 'none'}")
        raise UserError(f"--set {path}: there is no {segments[0].removesuffix('s')} {segments[1]!r}", remedy=remedy)


def _index(items: list[Node], name: str, above: SequenceOf[str], path: str) -> int:
    if name.isdigit() and int(name) < len(items):
        return int(name)
    valid = f"0 to {len(items) - 1}" if items else "it is empty"
    raise UserError(f"--set {path}: {'.'.join(above)!r} is a list and has no element {name!r}", remedy=valid)
