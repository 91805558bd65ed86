"""The messages between a coordinator and its connector hosts: numbered requests and answers, as framed JSON.

A frame (`core.network.frames`) holds JSON. An answer carries the number of its request; answers may arrive in another
order. Shapes and their encoding only: the two ends match them.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.checkpoint.manifest import CommittableDocument, Document, Formats, SplitDocument
from headrace.client.output_models import DeadLetterList, Redriven
from headrace.connect.sink import OpenTransaction, OutputSeen
from headrace.core.config import FileForm
from headrace.core.network.frames import encode_frame
from headrace.core.text.digest_text import digest_text, digest_value
from headrace.execution.discovered import DiscoveredSource
from headrace.rpc.messages import Failure

FRAME_BYTES_MAX = 256 * 1024 * 1024
"""A longer frame is rejected: it is not one of this protocol."""


class OpenRequest(Document):
    """Prepare the sinks, open enumerators and committers, find the splits. A second request opens everything again.

    pipeline   file form, with secrets
    known      source -> splits resolved before; foreign: by another job
    sinks      whether sinks are opened: False if nothing will be written
    accepted   topics that may differ from those of `known`
    formats    what formats have prepared before
    """

    do: Literal["open"] = "open"
    job: str
    pipeline: FileForm
    known: dict[str, tuple[SplitDocument, ...]]
    foreign: bool = False
    sinks: bool = True
    accepted: tuple[str, ...] = ()
    formats: Formats = Field(default_factory=dict)


class DiscoverRequest(Document):
    """Discover splits again."""

    do: Literal["discover"] = "discover"
    source: str


class DescribeRequest(Document):
    """Check whether an epoch's output can be committed."""

    do: Literal["describe"] = "describe"
    epoch: int
    committables: tuple[CommittableDocument, ...]


class CommitRequest(Document):
    """Make an epoch's output visible."""

    do: Literal["commit"] = "commit"
    epoch: int
    committables: tuple[CommittableDocument, ...]


class FenceRequest(Document):
    """End open transactions under these names, by sink."""

    do: Literal["fence"] = "fence"
    names: dict[str, tuple[str, ...]]


class SweepRequest(Document):
    """End open transactions, except those of this attempt."""

    do: Literal["sweep"] = "sweep"
    attempt: int


class OpenCommittersRequest(Document):
    """Open only the committers, to read a job's output, whether or not the job is running."""

    do: Literal["open committers"] = "open committers"
    job: str
    pipeline: FileForm


class TransactionsRequest(Document):
    """List the open transactions."""

    do: Literal["look for transactions"] = "look for transactions"


class AuditRequest(Document):
    """Read more of a sink's output. The first request of a sink starts where its output began."""

    do: Literal["read the output"] = "read the output"
    sink: str
    begin: dict[str, Any]
    timeout_ms: int


class LettersRequest(Document):
    """Read dead letters. node: only those of this node."""

    do: Literal["read dead letters"] = "read dead letters"
    pipeline: FileForm
    node: str | None
    limit: int


class ResendRequest(Document):
    """Resend dead letters, or list those that would be resent."""

    do: Literal["resend dead letters"] = "resend dead letters"
    pipeline: FileForm
    node: str
    to: str | None
    limit: int
    yes: bool


class CloseRequest(Document):
    """Close everything and end."""

    do: Literal["close"] = "close"


Request = (
    OpenRequest
    | DiscoverRequest
    | DescribeRequest
    | CommitRequest
    | FenceRequest
    | SweepRequest
    | OpenCommittersRequest
    | TransactionsRequest
    | AuditRequest
    | LettersRequest
    | ResendRequest
    | CloseRequest
)


class RequestFrame(Document):
    """A request with its number."""

    number: int
    request: Annotated[Request, Field(discriminator="do")]


class TransactionDocument(Document):
    """The form of a `connect.sink.OpenTransaction` in a message."""

    name: str
    sink: str = ""
    job: str = ""
    attempt: int = -1
    subtask: int = -1
    state: str = ""
    started_at_ms: int = 0
    timeout_ms: int = 0
    places: tuple[str, ...] = ()
    identity: dict[str, Any] = Field(default_factory=dict)
    ending: bool = False

    @staticmethod
    def of(there: OpenTransaction) -> TransactionDocument:
        """Returns the document of an open transaction."""
        return TransactionDocument(**dataclasses.asdict(there))

    def transaction(self) -> OpenTransaction:
        """The inverse of `of`."""
        return OpenTransaction(**self.model_dump())


class SeenDocument(Document):
    """The form of a `connect.sink.OutputSeen` in a message; digest: 32 hex digits."""

    rows: int
    digest: str
    settled: bool
    doubts: tuple[str, ...] = ()

    @staticmethod
    def of(seen: OutputSeen) -> SeenDocument:
        """Returns the document of an audit's reading."""
        return SeenDocument(
            rows=seen.rows, digest=digest_text(seen.digest), settled=seen.settled, doubts=tuple(seen.doubts)
        )

    def seen(self) -> OutputSeen:
        """The inverse of `of`."""
        return OutputSeen(self.rows, digest_value(self.digest), self.settled, self.doubts)


class AnswerFrame(Document):
    """The answer to the request of that number.

    failure        the request failed; the rest is empty
    opened         source -> its splits (open)
    splits         all splits of the source (discover)
    begins         sink -> where its output begins in the external system now (open)
    formats        what formats have prepared (open)
    committables   with the details that their commit needs (describe); those that are lost (commit)
    names          of the ended transactions (sweep)
    transactions   the open ones (look for transactions)
    seen           the sink's output read so far (read the output)
    letters        dead letters (read dead letters); redriven: those that were sent (resend dead letters)
    """

    number: int
    failure: Failure | None = None
    opened: dict[str, DiscoveredSource] = Field(default_factory=dict)
    splits: tuple[SplitDocument, ...] = ()
    begins: dict[str, dict[str, Any]] = Field(default_factory=dict)
    formats: Formats = Field(default_factory=dict)
    committables: tuple[CommittableDocument, ...] = ()
    names: tuple[str, ...] = ()
    transactions: tuple[TransactionDocument, ...] = ()
    seen: SeenDocument | None = None
    letters: DeadLetterList | None = None
    redriven: Redriven | None = None


def framed(document: Document) -> bytes:
    """Returns a document as a frame."""
    return encode_frame(document.model_dump_json().encode(), bytes_max=FRAME_BYTES_MAX)
