"""The messages that coordinator, workers and slots exchange.

    slot ──pipe──> worker (supervisor) ──one gRPC stream──> coordinator        FromWorker, FromSlot inside of it
    slot <──pipe── worker (supervisor) <──────────────────── coordinator       ToWorker,   ToSlot inside of it

The worker passes a slot's messages on as bytes. A slot's report about a job contains job and attempt, so that the
coordinator recognises a message of an older attempt. Documents (deployment, snapshots, status) are JSON bytes with
their own schemas, because they are also stored and shown.
"""

# Generated from schemas/headrace/rpc/v1/messages.proto by `python -m headrace.rpc.generate`. DO NOT EDIT.

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Address:
    """Where a slot listens for rows: TCP for other hosts, a Unix socket for the same one (empty: none)."""

    host: str
    port: int
    unix_path: str


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """A slot process that is up. `slot` names the process, not the place: a replacement has a new id."""

    slot: str
    pid: int
    address: Address


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, with the facts that users need to locate it.

    domain       user | external | internal (core.errors.Domain)
    retry        whether a restart may help
    place        topic, partition and offset as text, if known
    unreachable  no process answered at an address (core.errors.UnreachableError)
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


# ---- slot -> coordinator ---------------------------------------------------------------------------------------------


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
    """Every subtask of the slot has received the end of its input."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Acked:
    """Every subtask of the slot has its snapshot of `epoch` in storage.

    subtasks   JSON list of checkpoint.manifest.SubtaskDocument
    figures    JSON list of rpc.figures.SubtaskBarrier, for people; empty: none
    """

    job: str
    attempt: int
    epoch: int
    subtasks: bytes
    duration_ms: int
    bytes_written: int
    figures: bytes


@dataclass(frozen=True, slots=True)
class Declined:
    """The slot cannot complete `epoch` (storage refused); the job goes on."""

    job: str
    attempt: int
    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the slot's subtasks: JSON of rpc.status.SlotStatus. Sent a few times a second."""

    job: str
    attempt: int
    status: bytes


@dataclass(frozen=True, slots=True)
class Left:
    """The slot has left the attempt on command (FinishSlot or CancelSlot); its process exits now."""

    job: str
    attempt: int


FromSlot = Deployed | Failed | InputEnded | Acked | Declined | Status | Left


# ---- coordinator -> slot ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deploy:
    """Open these subtasks.

    token        the attempt's secret
    deployment   JSON of rpc.deployment.Deployment; holds the pipeline's secrets
    """

    job: str
    attempt: int
    token: str = field(repr=False)
    deployment: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AssignSplits:
    """Splits for the slot's subtask of `source`. splits: JSON list of rpc.deployment.AssignedSplitDocument."""

    source: str
    splits: bytes
    final: bool
    emitted: int | None = None


@dataclass(frozen=True, slots=True)
class RelayHeights:
    """Source -> height with which its idle partitions count (epoch ms; None: the watermark waits for them)."""

    heights: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class LimitTime:
    """Source -> event time (epoch ms) past which its partitions pause; None: no limit."""

    limits: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class TriggerEpoch:
    """Sources emit the barrier. savepoint: URL of a folder for a copy of the state in savepoint form, or empty.

    stop, drain   as in worker.control.Trigger
    """

    epoch: int
    savepoint: str
    stop: bool
    drain: bool


@dataclass(frozen=True, slots=True)
class Renamed:
    """`successor` is to be used in place of the transactional id `name`."""

    name: str
    successor: str


@dataclass(frozen=True, slots=True)
class EpochCompleted:
    """The epoch is complete and committed; the names that it prepared may be used again."""

    epoch: int
    renamed: tuple[Renamed, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochAborted:
    """The epoch is aborted: drop its snapshots."""

    epoch: int


@dataclass(frozen=True, slots=True)
class FinishSlot:
    """All output is committed: leave the attempt."""


@dataclass(frozen=True, slots=True)
class CancelSlot:
    """Leave the attempt now, without another snapshot."""


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


# ---- worker <-> coordinator ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Register:
    """First message of a stream. A worker that reconnects sends the same id, with its slots as they are now.

    busy      slots that run an attempt (a coordinator that does not know the attempt kills them)
    draining  it has sent WorkerDraining, maybe to another coordinator
    """

    worker: str
    host: str
    pid: int
    slots_max: int
    version: str
    idle: tuple[SlotInfo, ...] = ()
    busy: tuple[SlotInfo, ...] = ()
    draining: bool | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The sender is alive; sent every heartbeat interval in both directions."""


@dataclass(frozen=True, slots=True)
class SlotUp:
    """A slot process is ready to be deployed to."""

    slot: SlotInfo


@dataclass(frozen=True, slots=True)
class SlotDown:
    """A slot process has ended. reason: text for users, such as `killed by signal 9`; clean: it left on command;
    domain: as in Failure, none from earlier versions.
    """

    slot: str
    reason: str
    clean: bool
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class SlotMessage:
    """A message of a slot. payload: a FromSlot, which the worker does not decode."""

    slot: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class WorkerLeaving:
    """The worker ends on request; its slots end now."""


@dataclass(frozen=True, slots=True)
class WorkerDraining:
    """The worker is going to end as soon as no attempt runs in its slots. It gets no other one, and jobs move from it
    to others after a checkpoint. Later registrations of the worker repeat it.
    """


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """The resources that the worker and its slots use. Users see them; no decision depends on them.

    cpu_millicores  thousandths of a core, over the time since the message before
    memory_bytes    resident memory
    """

    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Stacks:
    """The answer to DumpStacks. text: the stacks of all threads, of the worker and of its slots."""

    request: str
    text: str


@dataclass(frozen=True, slots=True)
class Logs:
    """The answer to ReadLogs. text: the newest lines of the worker and of its slots."""

    request: str
    text: str


FromWorker = (
    Register | Heartbeat | SlotUp | SlotDown | SlotMessage | WorkerLeaving | WorkerDraining | WorkerLoad | Stacks | Logs
)


@dataclass(frozen=True, slots=True)
class Registered:
    """The worker has joined. cluster: the coordinator's cluster id."""

    cluster: str
    heartbeat_ms: int
    lease_ms: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The worker may not join; it ends with this message."""

    reason: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class SlotCommand:
    """A message for a slot. Unknown slots are ignored: their SlotDown is on its way.

    payload  a ToSlot, which the worker does not decode
    deploys  it is a Deploy: the slot is busy from now on
    leaves   it ends the attempt: a slot that has not exited after the cancel grace is killed
    """

    slot: str
    payload: bytes = field(repr=False)
    deploys: bool
    leaves: bool


@dataclass(frozen=True, slots=True)
class KillSlot:
    """End the slot's process now; a replacement is started."""

    slot: str


@dataclass(frozen=True, slots=True)
class StopWorker:
    """End all slots and the worker."""


@dataclass(frozen=True, slots=True)
class ReplaceSecret:
    """Replace a file in the worker's folder of secrets, such as a token or a certificate.
    A worker without that folder ignores it.
    """

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DumpStacks:
    """Write the stacks of all threads down, for users; answered by Stacks."""

    request: str


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """Send the newest lines of the logs, for users; answered by Logs."""

    request: str


ToWorker = (
    Registered | Refused | Heartbeat | SlotCommand | KillSlot | StopWorker | ReplaceSecret | DumpStacks | ReadLogs
)
