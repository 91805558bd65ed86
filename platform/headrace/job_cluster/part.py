"""What an attendant attends: the part that one host, or one pod, has in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.client.http import Client


class Part(Protocol):
    """One host's processes of a cluster. A client is used as a context manager."""

    @property
    def has_others(self) -> bool:
        """Whether the cluster goes on elsewhere when this part ends."""
        ...

    def keep_alive(self) -> None:
        """Starts what has died, unless somebody else does. Raises HeadraceError for a part that is given up."""
        ...

    def coordinator(self) -> Client:
        """Opens a client of this part's coordinator, which leads or is a standby."""
        ...

    def leader(self) -> Client:
        """Opens a client of the coordinator that leads."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Returns the environment of the program: what it submits goes to this cluster."""
        ...

    def stop(self, *, is_done: bool) -> None:
        """Ends this part. is_done: what the cluster serves has ended, so the other parts end as well."""
        ...
