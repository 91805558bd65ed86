"""The documents of a checkpoint, in acknowledgements, journal records and savepoints.

Owns the models and their JSON (`model_dump_json`, `model_validate_json`). The paths of files are relative to the folder
of the job (checkpoint) or of the savepoint, so that both can be moved. A path that contains `://` or begins with `/` is
absolute: the file is in the folder of another job, whose it stays, or of a savepoint, which a job may have claimed.
"""

from __future__ import annotations

import operator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from headrace.checkpoint.paths import joined
from headrace.connect.format import Side
from headrace.connect.sink import Committable
from headrace.connect.source import Split, SplitId
from headrace.core.errors import UserError
from headrace.core.source_state import SourceState
from headrace.core.step_definition import StepDefinition

FORMAT = 1
"""Version of the documents, the only one so far. `require_format` rejects a greater one."""


def require_format(manifest: dict[str, object], place: str) -> None:
    """Raises UserError for a manifest of a later format, with the version of headrace that wrote it."""
    found = manifest.get("format", FORMAT)
    if isinstance(found, int) and found > FORMAT:
        raise UserError(
            f"{place} has format {found}, written by headrace {manifest.get('version', '?')}: this one reads up to "
            f"{FORMAT}",
            remedy="use that version of headrace, or a newer one",
        )


class Document(BaseModel):
    """Base of all stored documents: frozen. An unknown field is an error, because a newer version wrote it."""

    # some documents contain pipelines with secrets, and errors are logged: they must not contain the input
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", hide_input_in_errors=True)


class FilePart(Document):
    """Row groups of one Parquet file (a file may also hold chunks that a later checkpoint no longer needs).

    checksum   `xxh64:<hex>` of the whole file
    bytes      size of the whole file
    rows       rows in the row groups named
    portion    of an engine that runs in increments (Spark `--follow`): the key of the unit of state that the rows
               belong to, such as a key bucket or the end of a window (`operators.aggregation.deltas`); empty: the state
               is not divided into units
    """

    path: str
    row_groups: tuple[int, ...]
    rows: int
    bytes: int
    checksum: str
    portion: tuple[int, ...] = ()


class StateHandle(Document):
    """One state of one node as one subtask wrote it.

    kind          a StateKind
    keys          columns of the key, in order (keyed states)
    first_group, last_group   key groups that the subtask owned, inclusive
    columns       column name -> polars type, over all files (a file may lack some)
    """

    node: str
    state: str
    kind: str
    keys: tuple[str, ...]
    subtask: int
    first_group: int
    last_group: int
    columns: dict[str, str]
    files: tuple[FilePart, ...]

    @property
    def rows(self) -> int:
        """Rows over all files."""
        return sum(part.rows for part in self.files)


class CommittableDocument(Document):
    """A `connect.sink.Committable` as a document."""

    sink: str
    subtask: int
    epoch: int
    payload: dict[str, Any]
    name: str = ""
    rows: int = 0
    digest: str = ""
    successor: str = ""

    @staticmethod
    def of(item: Committable) -> CommittableDocument:
        """The document of a committable."""
        return CommittableDocument(
            sink=item.sink,
            subtask=item.subtask,
            epoch=item.epoch,
            payload=item.payload,
            name=item.name,
            rows=item.rows,
            digest=item.digest,
            successor=item.successor,
        )

    def committable(self) -> Committable:
        """The committable of this document."""
        return Committable(
            self.sink, self.subtask, self.epoch, self.payload, self.name, self.rows, self.digest, self.successor
        )


class OutputTotal(Document):
    """All that a sink has committed over the job's life.

    rows, digest   number of rows, and their digest (`core.digest`, 32 hex digits; empty: none yet)
    begin          where the job's output begins in the external system, as the connector defines it; empty: not known
    """

    rows: int = 0
    digest: str = ""
    begin: dict[str, Any] = {}


class SubtaskDocument(Document):
    """The acknowledgement of one subtask for an epoch: all its files are in storage.

    savepoint   the same states written again in savepoint form, if the epoch is a savepoint
    sources     source name -> this subtask's share of its state
    counters    node -> counter -> total since the attempt began, as of the barrier
    """

    task: str
    subtask: int
    states: tuple[StateHandle, ...] = ()
    savepoint: tuple[StateHandle, ...] = ()
    sources: dict[str, SourceState] = {}
    committables: tuple[CommittableDocument, ...] = ()
    counters: dict[str, dict[str, int]] = {}


SUBTASK_DOCUMENTS = TypeAdapter(tuple[SubtaskDocument, ...])
"""JSON list in a slot's `Acked`."""


class SplitDocument(Document):
    """A split (`connect.source.Split`) as its enumerator resolved it, once for the job's life."""

    topic: str
    partition: int
    start: int
    stop: int | None = None
    detail: tuple[str, ...] = ()
    identity: str = ""

    @staticmethod
    def of(split: Split) -> SplitDocument:
        """The document of a split."""
        topic, partition = split.id
        return SplitDocument(
            topic=topic,
            partition=partition,
            start=split.start,
            stop=split.stop,
            detail=split.detail,
            identity=split.identity,
        )

    def split(self) -> Split:
        """The split of this document."""
        return Split(SplitId(self.topic, self.partition), self.start, self.stop, self.detail, self.identity)


class PreparedFormat(Document):
    """What a format's preparation learned for the messages of a node, or for their keys.

    question   hash of what it was asked (`execution.format_preparation`): the answer serves for an equal question only
    learned    the format's own data
    """

    question: str
    learned: dict[str, Any]


Formats = dict[str, dict[Side, PreparedFormat]]
"""Node -> side -> what was learned, for formats that ask something."""


def learned_of(formats: Formats) -> dict[str, dict[Side, dict[str, Any]]]:
    """What slots need of it."""
    return {node: {side: each.learned for side, each in sides.items()} for node, sides in formats.items()}


class Manifest(Document):
    """A complete checkpoint or savepoint: all that a restore needs, except the pipeline.

    kind          `checkpoint`, or `savepoint` (self-contained, owned by the user)
    parallelism   node -> its number of subtasks
    nodes         node -> its kind (`source`, verb of the step, `sink`), for the verdict on a changed pipeline
    sources       source -> its partitions and time, merged over subtasks
    splits        source -> all splits known to its enumerator
    counters      node -> counter -> total over the job's life, without work after this epoch's barrier
    transactions  sink -> transaction names that the attempt's writers may use from this epoch on; the attempt's record
                  may be pruned
    output        exactly-once sink -> all that it has committed, with this epoch
    definitions   step -> what it computes from its state, so that readers can show the rows of its output; empty in
                  manifests of earlier versions
    drained       the watermark went to its end before the barrier: every window has fired
    final         all input had ended
    formats       what formats have prepared; left out if it is empty
    """

    format: int = FORMAT
    kind: Literal["checkpoint", "savepoint"]
    job: str
    pipeline: str
    epoch: int
    attempt: int
    created_at_ms: int
    version: str
    plan_hash: str
    max_parallelism: int
    parallelism: dict[str, int]
    nodes: dict[str, str]
    states: tuple[StateHandle, ...]
    sources: dict[str, SourceState]
    splits: dict[str, tuple[SplitDocument, ...]]
    committables: tuple[CommittableDocument, ...] = ()
    counters: dict[str, dict[str, int]] = {}
    transactions: dict[str, tuple[str, ...]] = {}
    output: dict[str, OutputTotal] = {}
    definitions: dict[str, StepDefinition] = {}
    drained: bool = False
    final: bool = False
    formats: Formats = Field(default={}, exclude_if=operator.not_)

    @property
    def bytes(self) -> int:
        """Size of all files named, each once."""
        return sum({part.path: part.bytes for handle in self.states for part in handle.files}.values())


def located(manifest: Manifest, folder: str) -> Manifest:
    """The manifest with every path absolute: relative ones lie below `folder`."""
    return manifest.model_copy(update={"states": tuple(_located(handle, folder) for handle in manifest.states)})


def _located(handle: StateHandle, folder: str) -> StateHandle:
    files = tuple(part.model_copy(update={"path": joined(folder, part.path)}) for part in handle.files)
    return handle.model_copy(update={"files": files})
