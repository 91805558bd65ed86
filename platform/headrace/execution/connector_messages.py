"""What a coordinator and its connector hosts say to each other: numbered requests and answers, as framed JSON.

A frame is its length (4 bytes, big-endian) and that many bytes of JSON. Answers carry the number of their request and
may come in another order. Shapes and their form only; who waits for what is the two ends' business.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.checkpoint.manifest import CommittableDocument, Document, SplitDocument
from headrace.client.output_models import DeadLetterList, Redriven
from headrace.connect.sink import OpenTransaction, OutputSeen
from headrace.core.config import FileForm
from headrace.core.digest_text import digest_text, digest_value
from headrace.rpc.messages import Failure

LENGTH_BYTES = 4
FRAME_MAX = 256 * 1024 * 1024
"""A longer frame is no frame of ours."""


class OpenRequest(Document):
    """Prepare the sinks, open enumerators and committers, find the splits. A second one opens everything anew.

    pipeline   file form, with secrets
    known      source -> splits resolved before; foreign: by another job
    sinks      whether sinks matter: False where nothing is to be written
    """

    do: Literal["open"] = "open"
    job: str
    pipeline: FileForm
    known: dict[str, tuple[SplitDocument, ...]]
    foreign: bool = False
    sinks: bool = True


class DiscoverRequest(Document):
    """Look for splits again."""

    do: Literal["discover"] = "discover"
    source: str


class DescribeRequest(Document):
    """Look whether an epoch's output can be committed."""

    do: Literal["describe"] = "describe"
    epoch: int
    committables: tuple[CommittableDocument, ...]


class CommitRequest(Document):
    """Make an epoch's output visible."""

    do: Literal["commit"] = "commit"
    epoch: int
    committables: tuple[CommittableDocument, ...]


class FenceRequest(Document):
    """End what is open under these names, by sink."""

    do: Literal["fence"] = "fence"
    names: dict[str, tuple[str, ...]]


class SweepRequest(Document):
    """End what is open, but for what belongs to this attempt."""

    do: Literal["sweep"] = "sweep"
    attempt: int


class OpenCommittersRequest(Document):
    """Open the committers, and nothing else: for looking at what a job has put out, whether it runs or not."""

    do: Literal["open committers"] = "open committers"
    job: str
    pipeline: FileForm


class TransactionsRequest(Document):
    """Look what is open outside."""

    do: Literal["look for transactions"] = "look for transactions"


class AuditRequest(Document):
    """Read a sink's output on, from where it began. The first one of a sink begins."""

    do: Literal["read the output"] = "read the output"
    sink: str
    begin: dict[str, Any]
    timeout_ms: int


class LettersRequest(Document):
    """Read dead letters back. node: of this one only."""

    do: Literal["read dead letters"] = "read dead letters"
    pipeline: FileForm
    node: str | None
    limit: int


class ResendRequest(Document):
    """Send dead letters again, or say which ones that would be."""

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
    """A request on its way."""

    number: int
    request: Annotated[Request, Field(discriminator="do")]


class TransactionDocument(Document):
    """A `connect.sink.OpenTransaction` on its way."""

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
        """An open transaction written down."""
        return TransactionDocument(**dataclasses.asdict(there))

    def transaction(self) -> OpenTransaction:
        """The open transaction again."""
        return OpenTransaction(**self.model_dump())


class SeenDocument(Document):
    """A `connect.sink.OutputSeen` on its way; digest: 32 hex digits."""

    rows: int
    digest: str
    settled: bool
    doubts: tuple[str, ...] = ()

    @staticmethod
    def of(seen: OutputSeen) -> SeenDocument:
        """What was seen, written down."""
        return SeenDocument(
            rows=seen.rows, digest=digest_text(seen.digest), settled=seen.settled, doubts=tuple(seen.doubts)
        )

    def seen(self) -> OutputSeen:
        """What was seen again."""
        return OutputSeen(self.rows, digest_value(self.digest), self.settled, self.doubts)


class DiscoveredSource(Document):
    """What a source's enumerator found when it was opened.

    splits        all of them, those that were known before included
    interval_ms   how often to ask for new ones; None: never
    final         no more will come
    """

    splits: tuple[SplitDocument, ...]
    interval_ms: int | None
    final: bool


class AnswerFrame(Document):
    """The answer to the request of that number.

    failure   it failed; the rest is empty
    opened    source -> what it has (open)
    splits    all splits of the source (discover)
    begins    sink -> where its output begins outside, as it is now (open)
    committables   with what it takes to commit them (describe); those that are lost (commit)
    names     what was ended (sweep)
    transactions   what is open (look for transactions)
    seen      of a sink's output so far (read the output)
    letters   dead ones (read dead letters); redriven: what was sent (resend dead letters)
    """

    number: int
    failure: Failure | None = None
    opened: dict[str, DiscoveredSource] = Field(default_factory=dict)
    splits: tuple[SplitDocument, ...] = ()
    begins: dict[str, dict[str, Any]] = Field(default_factory=dict)
    committables: tuple[CommittableDocument, ...] = ()
    names: tuple[str, ...] = ()
    transactions: tuple[TransactionDocument, ...] = ()
    seen: SeenDocument | None = None
    letters: DeadLetterList | None = None
    redriven: Redriven | None = None


def framed(document: Document) -> bytes:
    """A document as a frame."""
    data = document.model_dump_json().encode()
    assert len(data) <= FRAME_MAX, f"a frame of {len(data)} bytes"
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def length_of(head: bytes) -> int:
    """The length that a frame's first bytes say. Raises ValueError where it cannot be one."""
    length = int.from_bytes(head, "big")
    if length > FRAME_MAX:
        raise ValueError(f"a frame of {length} bytes")
    return length
