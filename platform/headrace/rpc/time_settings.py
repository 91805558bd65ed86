"""The times of the control plane. Operators set them by environment variables, the same for all processes.

| variable               | default | meaning                                                                         |
|------------------------|---------|---------------------------------------------------------------------------------|
| `HEADRACE_HEARTBEAT`   | 2s      | interval of heartbeats: worker and coordinator, supervisor and slot, two slots  |
| `HEADRACE_LEASE`       | 10s     | a slot or worker that receives no heartbeat for this long stops its work        |
| `HEADRACE_WORKER_LOST` | 15s     | a worker without a heartbeat for this long is lost; so is a slot to another one |
| `HEADRACE_RECONNECT`   | 2s      | a dropped connection that is not restored within this time counts as loss       |
| `HEADRACE_CANCEL`      | 30s     | a slot that has not left its attempt this long after the command is killed      |
| `HEADRACE_ORPHAN`      | 10m     | a worker that its cluster has made ends this long after the last coordinator    |

`headrace cluster start` passes its environment on to the processes that it starts. `headrace run`, which is coordinator
and worker in one process, reads the same variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.config import parse_duration_ms
from headrace.core.errors import UserError

_NAMES = ("heartbeat", "lease", "worker_lost", "reconnect", "cancel", "orphan")
_VARIABLES = {name: f"HEADRACE_{name.upper()}" for name in _NAMES}


@dataclass(frozen=True, slots=True)
class ClusterTimes:
    """The times of the control plane in ms.

    heartbeat    interval of heartbeats: on the stream, on the pipe between supervisor and slot, between slots
    worker_lost  a worker without a heartbeat for this long is lost; so is, to a slot, another slot
    reconnect    a dropped stream that is not restored within this time counts as loss
    lease        a slot without a heartbeat of its supervisor, or a worker without its coordinator, stops after this
    cancel       a slot whose subtasks have not stopped this long after a cancel is killed
    orphan       a worker that its cluster has made ends after so long without a coordinator: what should have ended it,
                 YARN for example, may have failed
    """

    heartbeat: int = 2_000
    worker_lost: int = 15_000
    reconnect: int = 2_000
    lease: int = 10_000
    cancel: int = 30_000
    orphan: int = 600_000


def times_from(environment: Mapping[str, str]) -> ClusterTimes:
    """The times that the environment sets, the defaults for the rest. Raises UserError for times that cannot work."""
    given = {
        name: _time(variable, text) for name, variable in _VARIABLES.items() if (text := environment.get(variable))
    }
    times = ClusterTimes(**given)
    if not times.heartbeat * 2 <= times.lease <= times.worker_lost:
        # A lost worker's work is restarted elsewhere: its slots must have stopped by then, or there were two writers.
        raise UserError(
            f"a heartbeat of {times.heartbeat} ms, a lease of {times.lease} ms and a worker lost after "
            f"{times.worker_lost} ms do not fit together",
            remedy=f"set {_VARIABLES['heartbeat']} to at most half of {_VARIABLES['lease']}, "
            f"and {_VARIABLES['worker_lost']} to at least {_VARIABLES['lease']}",
        )
    return times


def _time(variable: str, text: str) -> int:
    try:
        time_ms = parse_duration_ms(text)
    except ValueError as error:
        raise UserError(f"{variable}: {error}") from error
    if time_ms <= 0:
        raise UserError(f"{variable} is {text!r}", remedy="write a duration above zero, such as 2s")
    return time_ms
