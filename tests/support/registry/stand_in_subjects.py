"""The subjects of the stand-in for Confluent's registry: ids, versions, references, contexts, deletion, its codes."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, field

Document = dict[str, object]
DEFAULT_CONTEXT = "."
LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


class RefusedError(Exception):
    """An answer with a code of Confluent's; its status is the code's first three digits."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return int(str(self.code)[:3])


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema: what was sent, without the subject."""

    id: int
    guid: str
    body: Document

    def document(self) -> Document:
        """As answers have it: AVRO is not named."""
        shown = {key: value for key, value in self.body.items() if value}
        if shown.get("schemaType") == "AVRO":
            del shown["schemaType"]
        return {**shown, "guid": self.guid}


@dataclass(slots=True)
class Version:
    """A version of a subject."""

    number: int
    schema: Registered
    deleted: bool = False


@dataclass(slots=True)
class Subjects:
    """All contexts of a registry. Methods raise RefusedError. `hidden`: ids that it does not know yet."""

    versions: dict[str, list[Version]] = field(default_factory=dict)
    by_id: dict[tuple[str, int], Registered] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    level: str = "BACKWARD"
    hidden: set[int] = field(default_factory=set)

    def register(self, name: str, body: Document) -> Version:
        """POST /subjects/NAME/versions."""
        self._check(body)
        found = self._same(name, body)
        if found is not None and not found.deleted:
            return found
        self._check_compatible(name, body)
        schema = self._schema(_context_of(name), body)
        listed = self.versions.setdefault(name, [])
        version = Version(max((each.number for each in listed), default=0) + 1, schema)
        listed.append(version)
        return version

    def lookup(self, name: str, body: Document) -> Version:
        """POST /subjects/NAME."""
        self._check(body)
        self._subject(name)
        found = self._same(name, body)
        if found is None or found.deleted:
            raise RefusedError(40403, "Schema not found")
        return found

    def version(self, name: str, number: str, *, deleted: bool = False) -> Version:
        """GET /subjects/NAME/versions/NUMBER."""
        listed = self._subject(name, deleted=deleted)
        if number in ("latest", "-1"):
            return listed[-1]
        if not number.isdigit() or int(number) == 0:
            raise RefusedError(
                42202,
                f"The specified version '{number}' is not a valid version id. Allowed values are between "
                '[1, 2^31-1] and the string "latest"',
            )
        for each in listed:
            if each.number == int(number):
                return each
        raise RefusedError(40402, f"Version {number} not found.")

    def schema(self, text: str, subject: str | None) -> Registered:
        """GET /schemas/ids/ID."""
        context = DEFAULT_CONTEXT if subject is None else _context_of(subject)
        found = self.by_id.get((context, int(text))) if text.isdigit() else None
        if found is None or found.id in self.hidden:
            raise RefusedError(40403, f"Schema {text} not found")
        return found

    def schema_by_guid(self, guid: str) -> Registered:
        """GET /schemas/guids/GUID."""
        for each in self.by_id.values():
            if each.guid == guid and each.id not in self.hidden:
                return each
        raise RefusedError(40403, f"Schema {guid} not found")

    def delete(self, name: str, number: str, *, permanent: bool) -> int:
        """DELETE /subjects/NAME/versions/NUMBER."""
        version = self.version(name, number, deleted=permanent)
        self._check_unreferenced(name, version.number)
        if not permanent:
            version.deleted = True
        elif not version.deleted:
            raise RefusedError(
                40407,
                f"Subject '{name}' Version {version.number} was not deleted first before being permanently deleted",
            )
        else:
            self.versions[name].remove(version)
        return version.number

    def compatible(self, name: str, body: Document) -> bool:
        """Whether the latest version can be read by this schema: for Avro records, by fields and their defaults."""
        level = self.levels.get(name, self.level)
        live = [each for each in self.versions.get(name, []) if not each.deleted]
        if not level.startswith(("BACKWARD", "FULL")) or not live or _kind(body) != "AVRO":
            return True
        return _reads(json.loads(str(body["schema"])), json.loads(str(live[-1].schema.body["schema"])))

    def _check_compatible(self, name: str, body: Document) -> None:
        if not self.compatible(name, body):
            raise RefusedError(
                409,
                "Schema being registered is incompatible with an earlier schema for subject "
                f'"{name}", details: [reader field without a default or of another type]',
            )

    def _check(self, body: Document) -> None:
        if _kind(body) == "AVRO":
            try:
                parsed = json.loads(str(body.get("schema")))
            except ValueError:
                parsed = {"type": None}
            if isinstance(parsed, dict) and parsed.get("type") not in ("record", "enum", "fixed", "array", "map"):
                raise RefusedError(42201, "Invalid schema: Either the input schema or one its references is invalid")
        for each in _references(body):
            try:
                self.version(str(each["subject"]), str(each["version"]))
            except RefusedError as error:
                raise RefusedError(42201, f"Invalid schema: {error.message}") from error

    def _check_unreferenced(self, name: str, number: int) -> None:
        for listed in self.versions.values():
            for version in listed:
                for each in _references(version.schema.body):
                    if (each["subject"], each["version"]) == (name, number) and not version.deleted:
                        raise RefusedError(42206, f"One or more references exist to the schema {{subject={name}}}.")

    def _subject(self, name: str, *, deleted: bool = False) -> list[Version]:
        listed = [each for each in self.versions.get(name, []) if deleted or not each.deleted]
        if not listed:
            raise RefusedError(40401, f"Subject '{name}' not found.")
        return listed

    def _same(self, name: str, body: Document) -> Version | None:
        guid = _guid(body)
        return next((each for each in self.versions.get(name, []) if each.schema.guid == guid), None)

    def _schema(self, context: str, body: Document) -> Registered:
        guid = _guid(body)
        for (known, _), schema in self.by_id.items():
            if known == context and schema.guid == guid:
                return schema
        number = sum(known == context for known, _ in self.by_id) + 1
        kept = {
            key: body[key] for key in ("schemaType", "schema", "references", "metadata", "ruleSet") if body.get(key)
        }
        self.by_id[context, number] = Registered(number, guid, kept)
        return self.by_id[context, number]


def _context_of(subject: str) -> str:
    return subject[1:].partition(":")[0] if subject.startswith(":.") else DEFAULT_CONTEXT


def _kind(body: Document) -> str:
    return str(body.get("schemaType") or "AVRO")


def _references(body: Document) -> list[Document]:
    listed = body.get("references") or []
    assert isinstance(listed, list)
    return listed


def _guid(body: Document) -> str:
    """The same for the same schema in every context."""
    text = str(body.get("schema"))
    if _kind(body) == "AVRO":
        text = json.dumps(json.loads(text))
    told = json.dumps([_kind(body), text, _references(body), body.get("ruleSet")])
    return str(uuid.UUID(bytes=hashlib.md5(told.encode(), usedforsecurity=False).digest()))


def _reads(reader: Document, writer: Document) -> bool:
    written = {each["name"]: each["type"] for each in _fields(writer)}
    return all(
        written[each["name"]] == each["type"] if each["name"] in written else "default" in each
        for each in _fields(reader)
    )


def _fields(schema: Document) -> list[Document]:
    listed = schema.get("fields", [])
    assert isinstance(listed, list)
    return listed
