"""Names of subjects: which versions of a registry belong to a topic or a record. Pure."""

from __future__ import annotations

from typing import Literal

from headrace.connect.format import Side
from headrace.core.errors import UserError

Strategy = Literal["topic", "record", "topic_record"]
_CONTEXT_BEGIN, _CONTEXT_END = ":.", ":"


def subject_name(strategy: Strategy, *, topic: str | None, record: str | None, side: Side) -> str:
    """The subject of one side of a topic's records, as Confluent's strategies of these names make it.

    record: full name of the record or message. Raises UserError if what the strategy takes is not known.
    """
    if strategy != "record" and topic is None:
        raise UserError(
            f"subject: {strategy} takes the name of a topic, and this node has none or several",
            remedy="name the subject: `subject_name: ..`, or write `subject: record`",
        )
    if strategy == "topic":
        return f"{topic}-{side}"
    if not record:
        raise UserError(
            f"subject: {strategy} takes the name of a record, which is not known here",
            remedy="name it: `record: ..` for avro, `message: ..` for protobuf",
        )
    return record if strategy == "record" else f"{topic}-{record}"


def check_subject(subject: str) -> None:
    """Raises UserError for a subject that a URL cannot name: it would become another path of the registry."""
    if subject in ("", ".", "..") or any(ord(letter) < 0x20 for letter in subject):
        raise UserError(f"{subject!r} is no name of a subject", remedy="name one that the registry has")


def in_context(subject: str, context: str | None) -> str:
    """The subject as the registry knows it in a context (None: the default one). A name with a context keeps it."""
    if context is None or subject.startswith(_CONTEXT_BEGIN):
        return subject
    return f"{_context_prefix(context)}{subject}"


def context_subject(context: str | None) -> str | None:
    """The subject by which a request for an id names its context; None: the default one."""
    return None if context is None else _context_prefix(context)


def _context_prefix(context: str) -> str:
    return f"{_CONTEXT_BEGIN}{context.removeprefix('.')}{_CONTEXT_END}"
