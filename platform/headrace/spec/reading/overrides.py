"""`--set sources.flights.kafka.topic=x`: sets values in a file's tree before it is read.

Creates missing maps on the path, but no nodes: a name that no source, step or sink has is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

from headrace.core.errors import Location, UserError, did_you_mean
from headrace.spec.findings import joined
from headrace.spec.graph import GROUPS
from headrace.spec.reading.yaml_tree import Entry, Mapping, Node, Scalar, Sequence, compose

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
