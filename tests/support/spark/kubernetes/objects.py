"""Objects of the stand-in for Kubernetes: plain documents by kind, namespace and name, with versions and watches."""

from __future__ import annotations

import copy
import itertools
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Document = dict[str, Any]
NOT_FOUND, CONFLICT, FORBIDDEN = 404, 409, 403
_TERM = re.compile(r"\s*(?:(!)?([\w./-]+)\s*(?:(!=|==?)\s*([\w.-]*)|(in|notin)\s*\(([^)]*)\))?)\s*(?:,|$)")


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Event:
    """A change: ADDED, MODIFIED, DELETED."""

    type: str
    kind: str
    version: int
    object: Document


class Objects:
    """All objects of a cluster, for any thread. kind: the plural, as in URLs."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], Document] = {}
        self._events: list[Event] = []
        self._versions = itertools.count(1)
        self._changed = threading.Condition()
        self._closed = False

    def create(self, kind: str, namespace: str, given: Document) -> Document:
        """A new object. Raises RefusedError where it is there."""
        with self._changed:
            document = copy.deepcopy(given)
            meta = document.setdefault("metadata", {})
            if "name" not in meta:
                meta["name"] = meta.get("generateName", "") + uuid.uuid4().hex[:5]
            if (kind, namespace, meta["name"]) in self._objects:
                raise RefusedError(CONFLICT, f'{kind} "{meta["name"]}" already exists')
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            meta |= {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now}
            return self._put("ADDED", kind, document)

    def get(self, kind: str, namespace: str, name: str) -> Document:
        """Raises RefusedError where it is not there."""
        with self._changed:
            return copy.deepcopy(self._found(kind, namespace, name))

    def select(self, kind: str, namespace: str | None = None, selector: str = "") -> list[Document]:
        """Those of a namespace, or of all, that a label selector selects."""
        with self._changed:
            return [
                copy.deepcopy(document)
                for (own_kind, own_namespace, _), document in self._objects.items()
                if own_kind == kind and namespace in (None, own_namespace) and selects(selector, document)
            ]

    def change(self, kind: str, namespace: str, name: str, change: Callable[[Document], Document]) -> Document:
        """What `change` makes of it. Raises RefusedError where it is not there."""
        with self._changed:
            document = change(copy.deepcopy(self._found(kind, namespace, name)))
            meta = self._found(kind, namespace, name)["metadata"]
            document["metadata"] |= {key: meta[key] for key in ("name", "namespace", "uid", "creationTimestamp")}
            return self._put("MODIFIED", kind, document)

    def delete(self, kind: str, namespace: str, name: str) -> Document:
        """With all that it owns. Raises RefusedError where it is not there."""
        with self._changed:
            document = self._found(kind, namespace, name)
            del self._objects[kind, namespace, name]
            self._tell("DELETED", kind, document)
            owner = document["metadata"]["uid"]
            owned = [
                key
                for key, each in self._objects.items()
                if any(reference["uid"] == owner for reference in each["metadata"].get("ownerReferences", ()))
            ]
            for key in owned:
                if key in self._objects:
                    self.delete(*key)
            return copy.deepcopy(document)

    def created(self, kind: str) -> list[Document]:
        """All that ever were, as they began."""
        with self._changed:
            return [event.object for event in self._events if event.kind == kind and event.type == "ADDED"]

    @property
    def version(self) -> int:
        """Of the latest change."""
        with self._changed:
            return self._events[-1].version if self._events else 0

    def watch(self, kind: str, since: int, until_s: float, is_mine: Callable[[Document], bool]) -> Iterator[Event]:
        """Changes after version `since`, as they come; ends when nothing came for `until_s`, or with `close`."""
        seen = 0
        while True:
            with self._changed:
                if not self._comes_after(seen, until_s):
                    return
                new, seen = self._events[seen:], len(self._events)
            for event in new:
                if event.kind == kind and event.version > since and is_mine(event.object):
                    yield event

    def wait(self, seconds: float) -> bool:
        """Until something changes, or that long. False: closed."""
        with self._changed:
            self._changed.wait(seconds)
            return not self._closed

    def close(self) -> None:
        """Ends all watches."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _comes_after(self, seen: int, until_s: float) -> bool:
        return self._changed.wait_for(lambda: self._closed or len(self._events) > seen, until_s) and not self._closed

    def _found(self, kind: str, namespace: str, name: str) -> Document:
        try:
            return self._objects[kind, namespace, name]
        except KeyError:
            raise RefusedError(NOT_FOUND, f'{kind} "{name}" not found') from None

    def _put(self, what: str, kind: str, document: Document) -> Document:
        meta = document["metadata"]
        self._objects[kind, meta["namespace"], meta["name"]] = document
        self._tell(what, kind, document)
        return copy.deepcopy(document)

    def _tell(self, what: str, kind: str, document: Document) -> None:
        version = next(self._versions)
        document["metadata"]["resourceVersion"] = str(version)
        self._events.append(Event(what, kind, version, copy.deepcopy(document)))
        self._changed.notify_all()


def selects(selector: str, document: Document) -> bool:
    """Whether a label selector selects it."""
    labels = document["metadata"].get("labels") or {}
    for absent, key, sign, value, word, values in _TERM.findall(selector):
        if word:
            among = labels.get(key) in [each.strip() for each in values.split(",")]
            fits = among == (word == "in")
        elif sign:
            fits = (labels.get(key) == value) == (sign != "!=")
        else:
            fits = (key in labels) != bool(absent)
        if not fits:
            return False
    return True


def merged(document: Document, patch: Document) -> Document:
    """A document with a merge patch: null removes, lists are replaced."""
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result


def patched(document: Document, operations: list[Document]) -> Document:
    """A document after the operations of a JSON patch: add, replace and remove."""
    for operation in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place: Any = document
        for part in way:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        match operation["op"], place:
            case "remove", list():
                del place[int(last)]
            case "remove", _:
                place.pop(last, None)
            case "add", list():
                place.insert(len(place) if last == "-" else int(last), operation["value"])
            case (("add" | "replace"), _):
                place[int(last) if isinstance(place, list) else last] = operation["value"]
            case other, _:
                raise RefusedError(422, f"JSON patch: {other}")
    return document
