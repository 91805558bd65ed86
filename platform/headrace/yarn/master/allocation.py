"""The ApplicationMasterProtocol as a machine: which call comes next, and what an answer means. Pure.

Rules of the ResourceManager (`ApplicationMasterService.allocate`):

* A request names a *count* that is outstanding, not an increment. A number (allocation request id) belongs to one
  worker here, so its count is 1, or 0 once it is withdrawn. The ResourceManager lowers the count when it grants.
* A call has the response id of the last answer. The same call sent again, after an answer was lost, gets that answer
  again; so a call is repeated *unchanged*, and what was asked meanwhile comes with the next one.
* A ResourceManager that was restarted knows no request: after the registration the ids begin at 0, and everything that
  is outstanding is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.yarn.records import Allocation, ContainerEnd, Headroom


@dataclass(frozen=True, slots=True)
class AllocateCall:
    """counts: number -> 1 or 0; releases: containers."""

    response_id: int
    counts: tuple[tuple[int, int], ...] = ()
    releases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocateAnswer:
    """headroom: None: the answer has none; nodes: those whose state has changed -> whether YARN decommissions them, and
    lets what runs there end before."""

    response_id: int
    allocated: tuple[Allocation, ...] = ()
    ended: tuple[ContainerEnd, ...] = ()
    headroom: Headroom | None = None
    nodes: Mapping[str, bool] = field(default_factory=dict)


class AllocationMachine:
    """The calls of one attempt. Belongs to one lock."""

    def __init__(self) -> None:
        self._response_id = 0
        self._outstanding: set[int] = set()
        self._changed: dict[int, int] = {}
        self._releases: list[str] = []
        self._sent: AllocateCall | None = None

    @property
    def outstanding(self) -> frozenset[int]:
        """Numbers that were requested and not granted."""
        return frozenset(self._outstanding)

    @property
    def is_eager(self) -> bool:
        """Whether the next call has something to say, or something to wait for."""
        return bool(self._outstanding or self._changed or self._releases)

    def request(self, number: int) -> None:
        """Asks for a container."""
        self._outstanding.add(number)
        self._changed[number] = 1

    def withdraw(self, number: int) -> None:
        """Asks for it no more. It may have been granted meanwhile: `answered` releases it then."""
        if number in self._outstanding:
            self._outstanding.discard(number)
            self._changed[number] = 0

    def release(self, container: str) -> None:
        """Gives a container back, which ends what runs in it."""
        self._releases.append(container)

    def next_call(self) -> AllocateCall:
        """The call to send now: the last one, if it was not answered."""
        if self._sent is None:
            self._sent = AllocateCall(self._response_id, tuple(sorted(self._changed.items())), tuple(self._releases))
            self._changed, self._releases = {}, []
        return self._sent

    def answered(self, answer: AllocateAnswer) -> tuple[Allocation, ...]:
        """Takes the answer to the call. Returns what was granted and is still needed; gives the rest back."""
        self._response_id, self._sent = answer.response_id, None
        granted: list[Allocation] = []
        for allocation in answer.allocated:
            if allocation.number in self._outstanding:
                self._outstanding.discard(allocation.number)
                # a change that was not sent yet would ask for a second container
                self._changed.pop(allocation.number, None)
                granted.append(allocation)
            else:
                # granted while it was being withdrawn, or twice after a restart of the ResourceManager
                self._releases.append(allocation.container)
        return tuple(granted)

    def registered_again(self) -> None:
        """The ResourceManager was restarted, and this attempt has registered again."""
        lost = () if self._sent is None else self._sent.releases
        self._response_id, self._sent = 0, None
        self._changed = dict.fromkeys(self._outstanding, 1)
        self._releases = [*lost, *self._releases]
