"""Locations in a pipeline file: from paths of the data to lines and columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.errors import ExpressionError, Location
from headrace.spec.findings import Finding, Path, collecting
from headrace.spec.reading.variables import Variables
from headrace.spec.reading.yaml_tree import JOINED, QUOTE, Mapping, Node, Scalar, Sequence, takes_expression, unbalanced

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
