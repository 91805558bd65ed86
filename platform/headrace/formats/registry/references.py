"""Follows the references of a schema until all texts are known. Pure: whoever holds it asks the registry.

    walk = ReferenceWalk(schema)
    while (wanted := walk.wanted()) is not None:
        walk.add(wanted, ask(wanted))
    walk.whole()

What a registry answers is not trusted: references are bounded, and a name never leads out of a folder.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.formats.registry.schemas import (
    Import,
    Reference,
    Schema,
    SchemaUnusableError,
    WholeSchema,
)

SCHEMAS_MAX = 256
"""Most schemas that one refers to, directly or through others."""
DEPTH_MAX = 32
TEXT_BYTES_MAX = 16 << 20
"""Most bytes of a schema and all that it refers to."""
NAME_LETTERS_MAX = 512


@dataclass(frozen=True, slots=True)
class Place:
    """Where a registry has a schema."""

    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


@dataclass(slots=True)
class _Entry:
    """A schema that is referred to, with its distance from the first one."""

    name: str
    depth: int
    schema: Schema | None = None


@dataclass(slots=True)
class _Order:
    """Schemas in the order of imports; `open` are those whose references are being followed."""

    imports: list[Import] = field(default_factory=list)
    done: set[Place] = field(default_factory=set)
    open: set[Place] = field(default_factory=set)


class ReferenceWalk:
    """The references of one schema. Methods raise SchemaUnusableError for references that cannot be followed."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._entries: dict[Place, _Entry] = {}
        self._names: dict[str, Place] = {}
        self._bytes = 0
        self._count(schema, 0)

    def wanted(self) -> Place | None:
        """A schema to ask for next; None: all are known."""
        return next((place for place, entry in self._entries.items() if entry.schema is None), None)

    def add(self, place: Place, schema: Schema) -> None:
        """Takes the schema at a wanted place."""
        entry = self._entries[place]
        if schema.kind != self._schema.kind:
            raise _refused(f"{place} is {schema.kind}, and what refers to it is {self._schema.kind}")
        entry.schema = schema
        self._count(schema, entry.depth)

    def whole(self) -> WholeSchema:
        """The schema with all texts, once none is wanted."""
        order = _Order()
        self._visit(self._schema.references, order)
        return WholeSchema(self._schema.kind, self._schema.text, tuple(order.imports))

    def _count(self, schema: Schema, depth: int) -> None:
        self._bytes += len(schema.text.encode(errors="replace"))
        if self._bytes > TEXT_BYTES_MAX:
            raise _refused(f"texts of more than {TEXT_BYTES_MAX >> 20} MiB")
        for reference in schema.references:
            self._want(reference, depth + 1)

    def _want(self, reference: Reference, depth: int) -> None:
        check_name(reference.name)
        place = Place(reference.subject, reference.version)
        if place.version < 1:
            raise _refused(f"{reference.name!r} is version {place.version} of {place.subject}, which is none")
        # one text for each name: compilers know a schema by its name alone
        if self._names.setdefault(reference.name, place) != place:
            raise _refused(f"{reference.name!r} is both {self._names[reference.name]} and {place}")
        known = self._entries.setdefault(place, _Entry(reference.name, depth))
        if known.name != reference.name:
            raise _refused(f"{place} is both {known.name!r} and {reference.name!r}")
        if depth > DEPTH_MAX or len(self._entries) > SCHEMAS_MAX:
            raise _refused(f"more than {SCHEMAS_MAX} schemas, or {DEPTH_MAX} one behind the other")

    def _visit(self, references: tuple[Reference, ...], order: _Order) -> None:
        for reference in references:
            place = Place(reference.subject, reference.version)
            if place in order.open:
                raise _refused(f"{place} refers to itself")
            if place in order.done:
                continue
            schema = self._entries[place].schema
            assert schema is not None, "nothing is wanted any more"
            order.open.add(place)
            self._visit(schema.references, order)
            order.open.remove(place)
            order.done.add(place)
            order.imports.append(Import(reference.name, schema.text))


def check_name(name: str) -> None:
    """Raises SchemaUnusableError for a name of a reference that, as a path, would lead out of a folder."""
    parts = name.split("/")
    is_path_out = any(part in ("", ".", "..") for part in parts) or "\\" in name or ":" in name
    if is_path_out or len(name) > NAME_LETTERS_MAX or not name.isprintable():
        raise _refused(f"{name[:80]!r} is no name of a schema")


def _refused(what: str) -> SchemaUnusableError:
    return SchemaUnusableError(
        f"the references of this schema cannot be followed: {what}",
        remedy="look at the subject in the registry, and register it again",
    )
