"""What coordinator, workers and slots say to each other. Shapes only; `rpc.codec` gives them their protobuf form.

    slot ──pipe──> worker (supervisor) ──one gRPC stream──> coordinator        FromWorker, FromSlot inside of it
    slot <──pipe── worker (supervisor) <──────────────────── coordinator       ToWorker,   ToSlot inside of it

What slots say about a job carries job and attempt, so that words of an older attempt are known as such. Documents
(deployment, snapshots, status) travel as JSON bytes with schemas of their own: they are kept and shown as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Address:
    """Where a slot listens for rows: TCP for other hosts, a Unix socket for this one (empty: none)."""

    host: str
    port: int
    unix_path: str = ""


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """A slot process that is up and idle. `slot` names the process, not the place: a replacement has a new id."""

    slot: str
    pid: int
    address: Address


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way to people. `place`: topic, partition and offset where known, as text.

    domain   user | external | internal (core.errors.Domain); retry: whether a restart may help
    unreachable   nobody answered there (core.errors.Unreachable)
    """

    message: str
    domain: str
    retry: bool
    remedy: str | None = None
    node: str | None = None
    subtask: int | None = None
    worker: str | None = None
    place: str | None = None
    trace: str | None = None
    unreachable: bool = False


# ---- slot -> coordinator -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deployed:
    """Every subtask is open, restored and connected; sources wait for their splits."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A subtask failed; the slot has stopped the others of the attempt and will exit."""

    job: str
    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class InputEnded:
    """Every subtask of the slot has seen the end of its input."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Acked:
    """Every subtask of the slot has its snapshot of `epoch` in storage.

    subtasks   JSON list of checkpoint.manifest.SubtaskDocument
    """

    job: str
    attempt: int
    epoch: int
    subtasks: bytes
    duration_ms: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class Declined:
    """The slot cannot complete `epoch` (storage refused); the job goes on."""

    job: str
    attempt: int
    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Status:
    """How the slot's subtasks stand: JSON of rpc.status.SlotStatus. Sent a few times a second."""

    job: str
    attempt: int
    status: bytes


@dataclass(frozen=True, slots=True)
class Left:
    """The slot has left the attempt on command (Finish or Cancel); its process exits now."""

    job: str
    attempt: int


FromSlot = Deployed | Failed | InputEnded | Acked | Declined | Status | Left


# ---- coordinator -> slot -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deploy:
    """Open these subtasks. deployment: JSON of rpc.deployment.Deployment. `token`: the attempt's secret."""

    job: str
    attempt: int
    token: str = field(repr=False)
    deployment: bytes = field(repr=False)  # holds the pipeline's secrets


@dataclass(frozen=True, slots=True)
class AssignSplits:
    """Splits for the slot's subtask of `source`. splits: JSON list of rpc.deployment.AssignedSplitDocument."""

    source: str
    splits: bytes
    final: bool
    emitted: int | None = None


@dataclass(frozen=True, slots=True)
class RelayHeights:
    """Source -> height at which its idle partitions stand (epoch ms; None: nothing moves)."""

    heights: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class LimitTime:
    """Source -> event time (epoch ms) past which its partitions pause; None: no limit."""

    limits: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class TriggerEpoch:
    """Sources: emit the barrier. savepoint: URL of a folder that gets the state in savepoint form too, or empty.

    stop, drain   as in worker.control.Trigger
    """

    epoch: int
    savepoint: str = ""
    stop: bool = False
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Renamed:
    """`successor` is to be used in place of the transactional id `name`."""

    name: str
    successor: str


@dataclass(frozen=True, slots=True)
class EpochCompleted:
    """Complete and committed; what it prepared is finished, so that its names may be used again."""

    epoch: int
    renamed: tuple[Renamed, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochAborted:
    """Given up: drop what is kept for it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class FinishSlot:
    """All is committed: leave the attempt."""


@dataclass(frozen=True, slots=True)
class CancelSlot:
    """Leave the attempt now, keep nothing."""


ToSlot = (
    Deploy
    | AssignSplits
    | RelayHeights
    | LimitTime
    | TriggerEpoch
    | EpochCompleted
    | EpochAborted
    | FinishSlot
    | CancelSlot
)


# ---- worker <-> coordinator --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Register:
    """First message of a stream. A worker that reconnects says the same id, with its slots as they are now.

    busy  slots that run an attempt (a coordinator that knows nothing of it cancels them)
    """

    worker: str
    host: str
    pid: int
    slots_max: int
    version: str
    idle: tuple[SlotInfo, ...] = ()
    busy: tuple[SlotInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Still here; sent every heartbeat interval in both directions."""


@dataclass(frozen=True, slots=True)
class SlotUp:
    """A slot process is ready to be deployed to."""

    slot: SlotInfo


@dataclass(frozen=True, slots=True)
class SlotDown:
    """A slot process has ended. reason: for people, such as `killed by signal 9`; clean: it left on command."""

    slot: str
    reason: str
    clean: bool


@dataclass(frozen=True, slots=True)
class SlotSaid:
    """A slot's own words, passed on."""

    slot: str
    said: FromSlot


@dataclass(frozen=True, slots=True)
class WorkerLeaving:
    """The worker was told to end; its slots end now."""


FromWorker = Register | Heartbeat | SlotUp | SlotDown | SlotSaid | WorkerLeaving


@dataclass(frozen=True, slots=True)
class Registered:
    """Welcome. cluster: the coordinator's cluster id."""

    cluster: str
    heartbeat_ms: int
    lease_ms: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The worker may not join; it ends with this message."""

    reason: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class TellSlot:
    """To be passed on to a slot. Unknown slots are ignored: their SlotDown is on its way."""

    slot: str
    told: ToSlot


@dataclass(frozen=True, slots=True)
class KillSlot:
    """End the slot's process now; a replacement is started."""

    slot: str


@dataclass(frozen=True, slots=True)
class StopWorker:
    """End all slots and the worker."""


ToWorker = Registered | Refused | Heartbeat | TellSlot | KillSlot | StopWorker


@dataclass(frozen=True, slots=True)
class ClusterTimes:
    """The control plane's times in ms, of which the defaults are DESIGN section 6's.

    heartbeat    between two beats, on the stream, on the pipe between supervisor and slot, and between slots
    worker_lost  a worker without a beat for this long is lost; so is a slot for another one
    reconnect    a dropped stream that does not come back within this counts as loss
    lease        a slot without a beat of its supervisor, or a worker without its coordinator, for this long stops
    cancel       a subtask that has not stopped this long after cancel gets its slot killed
    """

    heartbeat: int = 2_000
    worker_lost: int = 15_000
    reconnect: int = 2_000
    lease: int = 10_000
    cancel: int = 30_000
