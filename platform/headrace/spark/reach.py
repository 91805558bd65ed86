"""Whether executors reach what a job keeps: a folder of the driver's host is no place for a job on many hosts. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.errors import UserError

_LOCAL, _STANDALONE = "local", "spark://"
_HERE = {"localhost", "127.0.0.1", "[::1]"}


def runs_here(master: str) -> bool:
    """Whether all executors run on this host."""
    if not master.startswith(_STANDALONE):
        return master.startswith(_LOCAL)
    return {address.rpartition(":")[0] for address in master.removeprefix(_STANDALONE).split(",")} <= _HERE


def require_reachable(master: str, places: Mapping[str, str | None]) -> None:
    """Raises UserError where executors run elsewhere and a place (what it is -> its URL) is a folder of this host."""
    if runs_here(master):
        return
    for what, url in places.items():
        if url is not None and ("://" not in url or url.startswith("file:")):
            raise UserError(
                f"{what} {url} is a folder of this host, which the executors of {master} do not reach",
                remedy="name a place that all of them reach (s3://bucket/prefix); if that folder is a mount that all "
                "of them have, say so: --allow-local-storage",
            )
