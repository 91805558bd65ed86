"""Requests to one schema registry, by Confluent's client without its retries and caches.

    a schema, or "no such schema" by its own code   returned
    no answer, 408, 429, 5xx, half an answer        raised: ExternalError with `retry`, UnreachableError
    401, 403, a redirect, no registry, too long     raised: ExternalError
    a schema that the registry refuses (409, 422)   raised: UserError
    a schema that cannot be used (rules, paths)     raised: SchemaUnusableError

Each request is sent once and takes at most `ANSWER_SECONDS_MAX`. Redirects are not followed, so secrets go to the named
addresses only. Not for a slot: the client imports for a quarter of a second, and holds secrets. Used by one thread.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

from headrace.core.errors import ExternalError, HeadraceError, UnreachableError, UserError
from headrace.formats.registry import id_table
from headrace.formats.registry.access import RegistryAccess
from headrace.formats.registry.references import ReferenceWalk
from headrace.formats.registry.schemas import (
    Reference,
    Schema,
    SchemaId,
    SchemaKind,
    SchemaUnusableError,
    SubjectVersion,
    WholeSchema,
)
from headrace.formats.registry.subjects import check_subject, context_subject, in_context

try:
    from confluent_kafka import schema_registry as confluent
    from confluent_kafka.schema_registry.common._httpx_compat import httpx
    from confluent_kafka.schema_registry.error import SchemaRegistryError
except ImportError as error:
    raise UserError(
        f"a schema registry takes packages that are not installed: {error}",
        remedy="pip install 'headrace[registry]'",
    ) from error

if TYPE_CHECKING:
    from httpx2 import Request, Response, SyncByteStream

Answer = TypeVar("Answer")

QUIET_SECONDS = 1.0
"""How long a registry may be silent: until it accepts a connection, and between any two parts of an answer."""
ANSWER_SECONDS_MAX = 10.0
"""How long an answer may take as a whole."""
ANSWER_BYTES_MAX = 16 << 20
_TEXT_SHOWN_MAX = 300

_NO_SUCH_SUBJECT, _NO_SUCH_VERSION, _NO_SUCH_SCHEMA = 40401, 40402, 40403
_ABSENT = frozenset([_NO_SUCH_SUBJECT, _NO_SUCH_VERSION, _NO_SUCH_SCHEMA])
_TRANSIENT = frozenset([408, 425, 429])
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_CONFLICT, _UNPROCESSABLE = 409, 422


class RegistryClient:
    """One registry. `name`: its address, without secrets."""

    def __init__(self, access: RegistryAccess, *, quiet_s: float = QUIET_SECONDS) -> None:
        self.name = access.url
        self._access = access
        self._client = _opened(access, quiet_s)

    def close(self) -> None:
        """Closes its connections. Idempotent."""
        self._client.close()

    # ---- schemas of records ----------------------------------------------------------------------------------

    def schema(self, schema_id: SchemaId) -> WholeSchema | None:
        """The schema of an id with all that it refers to. None: the registry says that it has no such schema."""
        client, context = self._client, context_subject(self._access.context)
        if isinstance(schema_id, int):
            found = self._asked(f"schema {schema_id}", lambda: client.get_schema(schema_id, subject_name=context))
        else:
            found = self._asked(f"schema {schema_id}", lambda: client.get_schema_by_guid(schema_id))
        return None if found is None else self.whole(self._read(found, f"schema {schema_id}"))

    def answer(self, key: id_table.IdKey, drawn: float = 0.0) -> id_table.Event:
        """Asks for an id of the table; returns the event of the answer. drawn: a random number from 0 to 1."""
        try:
            schema = self.schema(key.id)
        except SchemaUnusableError as error:
            return id_table.Unusable(key, error.message)
        except HeadraceError as error:
            return id_table.Failed(key, error.message, drawn)
        return id_table.NotFound(key) if schema is None else id_table.Learned(key, schema)

    def whole(self, schema: Schema) -> WholeSchema:
        """The schema with all that it refers to."""
        walk = ReferenceWalk(schema)
        while (place := walk.wanted()) is not None:
            found = self.version(place.subject, place.version)
            if found is None:
                raise self._refusal(f"it has no {place}, to which another schema refers", "register it again")
            walk.add(place, found.schema)
        return walk.whole()

    # ---- subjects --------------------------------------------------------------------------------------------

    def latest(self, subject: str) -> SubjectVersion | None:
        """The latest version of a subject; None: there is no such subject."""
        return self._version(subject, "latest")

    def version(self, subject: str, number: int) -> SubjectVersion | None:
        """A version of a subject; None: there is none, perhaps not any more."""
        # what a schema refers to may have been deleted since
        return self._version(subject, number)

    def register_if_missing(self, subject: str, schema: Schema) -> int:
        """The id of a schema that the subject has or gets. Raises UserError if the subject refuses it.

        Safe to repeat: a registry gives the same schema the same id.
        """
        name, asked = self._subject(subject), _unregistered(schema)
        what = f"subject {subject}"
        found = self._asked(what, lambda: self._client.lookup_schema(name, asked))
        if found is None:
            found = self._asked(what, lambda: self._client.register_schema_full_response(name, asked))
        number = None if found is None else found.schema_id
        return self._whole_number(number, f"the id of the schema of {what}")

    def _version(self, subject: str, number: int | Literal["latest"]) -> SubjectVersion | None:
        name, what = self._subject(subject), f"subject {subject}"
        found = self._asked(what, lambda: self._client.get_version(name, number, deleted=number != "latest"))
        if found is None:
            return None
        return SubjectVersion(
            subject,
            self._whole_number(found.version, f"the version of {what}"),
            self._whole_number(found.schema_id, f"the id of {what}"),
            self._read(found.schema, what),
        )

    def _subject(self, subject: str) -> str:
        check_subject(subject)
        return in_context(subject, self._access.context)

    # ---- answers ---------------------------------------------------------------------------------------------

    def _asked(self, what: str, ask: Callable[[], Answer]) -> Answer | None:
        """The answer; None: the registry says that there is none."""
        # the caches are unbounded or keep "latest" for ever: answers are kept by their readers
        self._client.clear_caches()  # type: ignore[no-untyped-call]
        with self._translated(what):
            try:
                return ask()
            except SchemaRegistryError as error:
                if error.http_status_code == 404 and error.error_code in _ABSENT:
                    return None
                raise

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except HeadraceError:
            raise
        except SchemaRegistryError as error:
            raise self._of_status(what, error) from error
        except httpx.TransportError as error:
            raise UnreachableError(
                f"registry {self.name} does not answer: {self._shown(str(error) or type(error).__name__)}",
                remedy="check its url, and that it runs and can be reached from here",
            ) from error
        except (httpx.HTTPError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._no_registry(f"{type(error).__name__}: {error}") from error

    def _of_status(self, what: str, error: SchemaRegistryError) -> HeadraceError:
        status, said = error.http_status_code, self._shown(str(error.error_message))
        told = f"registry {self.name} answers {status} for {what}: {said}"
        if status in (_UNAUTHORIZED, _FORBIDDEN):
            return ExternalError(told, remedy="check its user, password, token or certificate, and what they may do")
        if status in _TRANSIENT or status >= 500:
            return ExternalError(told, remedy="it may answer later", retry=True)
        if 300 <= status < 400:
            return ExternalError(
                f"registry {self.name} redirects to another address, which is not followed: secrets are sent to named "
                "addresses only",
                remedy="name the address of the registry itself",
            )
        if status in (_CONFLICT, _UNPROCESSABLE):
            return UserError(told, remedy="change the columns, or the schema or compatibility level of that subject")
        if error.error_code == status or error.error_code in (None, SchemaRegistryError.UNKNOWN):
            return self._no_registry(f"{status} for {what}")
        return ExternalError(told, remedy="look at the registry")

    def _no_registry(self, said: str) -> ExternalError:
        return ExternalError(
            f"what answers at {self.name} is no schema registry, or none that has this: {self._shown(said)}",
            remedy="check its url with its path, such as http://HOST:8081 or http://HOST:8080/apis/ccompat/v7",
        )

    def _refusal(self, what: str, remedy: str) -> SchemaUnusableError:
        return SchemaUnusableError(f"registry {self.name}: {self._shown(what)}", remedy=remedy)

    def _shown(self, text: str) -> str:
        short = text if len(text) <= _TEXT_SHOWN_MAX else f"{text[:_TEXT_SHOWN_MAX]}.."
        return self._access.masked(short)

    def _whole_number(self, value: object, what: str) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise self._no_registry(f"{what} is {value!r}")

    def _read(self, schema: confluent.Schema, what: str) -> Schema:
        """The schema of an answer. Raises ExternalError for one that this version cannot read as it was meant."""
        kind = schema.schema_type
        if kind not in get_args(SchemaKind):
            raise self._refusal(f"{what} is of type {kind}", "known types are AVRO, PROTOBUF and JSON")
        if not isinstance(schema.schema_str, str):
            raise self._no_registry(f"{what} has no text")
        self._check_rules(schema, what)
        references = tuple(self._reference(each, what) for each in schema.references or ())
        return Schema(cast("SchemaKind", kind), schema.schema_str, references)

    def _reference(self, reference: confluent.SchemaReference, what: str) -> Reference:
        if not isinstance(reference.name, str) or not isinstance(reference.subject, str):
            raise self._no_registry(f"{what} refers to a schema without a name")
        number = self._whole_number(reference.version, f"the version of a reference of {what}")
        return Reference(reference.name, reference.subject, number)

    def _check_rules(self, schema: confluent.Schema, what: str) -> None:
        rules = schema.rule_set
        if rules is None:
            return
        found = [*(rules.migration_rules or ()), *(rules.domain_rules or ())]
        found += getattr(rules, "encoding_rules", None) or ()
        active = [rule for rule in found if not getattr(rule, "disabled", False)]
        if active:
            names = ", ".join(f"{rule.name} ({rule.type})" for rule in active[:5])
            raise self._refusal(
                f"{what} has rules, which are not supported: {names}. Without them its records would be read otherwise "
                "than they are meant, or encrypted",
                "read a topic whose schema has no rule set",
            )


def _unregistered(schema: Schema) -> confluent.Schema:
    references = [confluent.SchemaReference(each.name, each.subject, each.version) for each in schema.references]
    return confluent.Schema(schema.text, schema.kind, references)


def _opened(access: RegistryAccess, quiet_s: float) -> confluent.SchemaRegistryClient:
    """Confluent's client, without retries, with limits. Raises UserError for TLS files that cannot be used."""
    settings: dict[str, Any] = {"url": access.url, "max.retries": 0, "timeout": quiet_s}
    if access.user is not None:
        settings["basic.auth.user.info"] = f"{access.user}:{access.password}"
    for name, path in (("ca", access.ca), ("certificate", access.cert), ("key", access.key)):
        if path is not None:
            settings[f"ssl.{name}.location"] = path
    try:
        client = confluent.SchemaRegistryClient(settings)
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"the TLS files of registry {access.url} cannot be used: {error}",
            remedy="name PEM files that can be read, and a key without a password that matches its certificate",
        ) from error
    if access.ca is None:
        # beside certifi's, which are its default
        client._rest_client.verify.load_default_certs()
    session = client._rest_client.session
    # it has no setting for any of these. An answer that grows when it is unpacked would have no bound
    session.headers["Accept-Encoding"] = "identity"
    if access.token is not None:
        # its own setting demands the name of a cluster of Confluent Cloud
        session.headers["Authorization"] = f"Bearer {access.token}"
    session.follow_redirects = False
    session.event_hooks = {"request": [_begin], "response": [_bound]}
    return client


def _begin(request: Request) -> None:
    request.extensions["headrace_deadline_s"] = time.monotonic() + ANSWER_SECONDS_MAX


def _bound(response: Response) -> None:
    """Bounds an answer that has begun: called before its body is read."""
    if "content-encoding" in response.headers:
        raise httpx.DecodingError("the answer is packed, which was not asked for")
    response.stream = _BoundedStream(
        cast("SyncByteStream", response.stream), response.request.extensions["headrace_deadline_s"]
    )


class _BoundedStream(httpx.SyncByteStream):
    """The body of an answer, up to a number of bytes and a time."""

    def __init__(self, stream: SyncByteStream, deadline_s: float) -> None:
        self._stream = stream
        self._deadline_s = deadline_s

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._stream:
            size += len(part)
            if size > ANSWER_BYTES_MAX:
                raise ExternalError(
                    f"a registry's answer has more than {ANSWER_BYTES_MAX >> 20} MiB",
                    remedy="look at what is at its url",
                )
            if time.monotonic() > self._deadline_s:
                raise httpx.ReadTimeout(f"an answer takes longer than {ANSWER_SECONDS_MAX:g} s")
            yield part

    def close(self) -> None:
        self._stream.close()
