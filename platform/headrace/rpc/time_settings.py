"""The control plane's times, and how an operator sets them: environment variables, the same for all its processes.

| variable               | default | what                                                                        |
|------------------------|---------|-----------------------------------------------------------------------------|
| `HEADRACE_HEARTBEAT`   | 2s      | between two beats: worker and coordinator, supervisor and slot, two slots   |
| `HEADRACE_LEASE`       | 10s     | a slot or worker that hears nobody for this long stops its work             |
| `HEADRACE_WORKER_LOST` | 15s     | a worker without a beat for this long is lost; so is a slot for another one |
| `HEADRACE_RECONNECT`   | 2s      | a dropped connection that is not back within this counts as loss            |
| `HEADRACE_CANCEL`      | 30s     | a slot that has not left its attempt this long after being told to is killed |

`headrace cluster start` hands its environment on to the processes that it starts; `headrace run`, which is coordinator
and worker in one, takes them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.config import parse_duration_ms
from headrace.core.errors import UserError

_VARIABLES = {name: f"HEADRACE_{name.upper()}" for name in ("heartbeat", "lease", "worker_lost", "reconnect", "cancel")}


@dataclass(frozen=True, slots=True)
class ClusterTimes:
    """The control plane's times in ms.

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


def times_from(environment: Mapping[str, str]) -> ClusterTimes:
    """The times that the environment sets, the defaults for the rest. Raises UserError for times that cannot work."""
    given = {
        name: _time(variable, text) for name, variable in _VARIABLES.items() if (text := environment.get(variable))
    }
    times = ClusterTimes(**given)
    if not times.heartbeat * 2 <= times.lease <= times.worker_lost:
        # work given to others while its first holder still may go on would have two writers
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
