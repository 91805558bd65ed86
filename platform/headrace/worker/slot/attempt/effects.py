"""The effects that the attempt machine returns, for `slot.runtime` to execute. Shapes only.

An effect that names an event answers with that event. Such an effect may take long, so it is the last of its list.
Effects of leaving apply to the parts that exist: an attempt may end before it has subtasks, links or an uploader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.rpc.messages import Deploy, FromSlot
from headrace.worker.control import Command

# ---- opening ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Read the deployment, fetch the user's code, plan again -> Planned."""

    deploy: Deploy


@dataclass(frozen=True, slots=True)
class Connect:
    """Start the uploader, let peers in, connect to peers -> Connected."""


@dataclass(frozen=True, slots=True)
class OpenSubtasks:
    """Restore and open every subtask, the last task first -> SubtasksOpened."""


@dataclass(frozen=True, slots=True)
class StartSubtasks:
    """Start the thread of every subtask."""


# ---- running ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send this message to the coordinator."""

    message: FromSlot


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """Measure the subtasks and send a Status.

    ended  tasks whose input has ended
    due    it is only due: left out if it says nothing new (`DueReports`)
    """

    ended: frozenset[str]
    due: bool = False


@dataclass(frozen=True, slots=True)
class CommandSources:
    """Pass a command to each of these sources; sources without a subtask in this slot are left out."""

    commands: Mapping[str, Command]


@dataclass(frozen=True, slots=True)
class CommandAllSources:
    """Pass the same command to every source of this slot."""

    command: Command


@dataclass(frozen=True, slots=True)
class OrderEpoch:
    """The uploader may upload and acknowledge this epoch. savepoint: URL of a folder, or empty."""

    epoch: int
    savepoint: str


@dataclass(frozen=True, slots=True)
class GiveUpEpoch:
    """The uploader drops what it holds for this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class FreeNames:
    """Tell writers that everything up to the epoch is committed. successors: transactional id -> its replacement."""

    epoch: int
    successors: Mapping[str, str]


# ---- leaving ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FinishSubtasks:
    """Ask every subtask to return from its loop: all its output is committed."""


@dataclass(frozen=True, slots=True)
class CancelSubtasks:
    """Wake every sender, reader and mailbox with TaskCancelledError."""


@dataclass(frozen=True, slots=True)
class JoinSubtasks:
    """Wait at most `timeout_ms` for the threads of all subtasks -> SubtasksJoined."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class CloseLinks:
    """Send a goodbye to all peers and close the listener."""


@dataclass(frozen=True, slots=True)
class StopUploader:
    """Stop the uploader after the file that it writes; wait at most `timeout_ms` -> UploaderJoined."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class CloseParts:
    """Close readers, operators and writers whose thread has ended -> PartsClosed."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Write this to the slot's log."""

    text: str


@dataclass(frozen=True, slots=True)
class RemoveFolder:
    """Delete the attempt's folder for temporary files."""


Effect = (
    LoadPlan
    | Connect
    | OpenSubtasks
    | StartSubtasks
    | Send
    | ReportStatus
    | CommandSources
    | CommandAllSources
    | OrderEpoch
    | GiveUpEpoch
    | FreeNames
    | FinishSubtasks
    | CancelSubtasks
    | JoinSubtasks
    | CloseLinks
    | StopUploader
    | CloseParts
    | Warn
    | RemoveFolder
)
