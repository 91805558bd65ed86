"""Checks that executors can access a job's storage: executors on other hosts cannot read a folder of the driver's host.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from headrace.core.errors import UserError
from headrace.spark.cluster.kubernetes_settings import is_kubernetes

_LOCAL, _STANDALONE = "local", "spark://"
_VOLUMES = (
    "mount a volume there in all pods: --conf spark.kubernetes.{driver,executor}.volumes.persistentVolumeClaim.NAME."
    "{mount.path,options.claimName}"
)
_HERE = {"localhost", "127.0.0.1", "[::1]"}


def runs_here(master: str) -> bool:
    """Whether all executors run on this host."""
    if not master.startswith(_STANDALONE):
        return master.startswith(_LOCAL)
    return {address.rpartition(":")[0] for address in master.removeprefix(_STANDALONE).split(",")} <= _HERE


def require_reachable(master: str, places: Mapping[str, str | None], mounted: Sequence[str] = ()) -> None:
    """Raises UserError if executors run elsewhere and a place (its description -> its URL) is a folder of this host.

    mounted   folders that are volumes of all executors
    """
    if runs_here(master):
        return
    for what, url in places.items():
        if url is None or not _is_folder(url) or _is_below(url, mounted):
            continue
        raise UserError(
            f"{what} {url} is a folder of this host, which the executors of {master} do not reach",
            remedy="name a place that all of them reach (s3://bucket/prefix or hdfs://namenode/path)"
            + (f"; or {_VOLUMES}" if is_kubernetes(master) else "")
            + "; if that folder is a mount that all of them have, say so: --allow-local-storage",
        )


def _is_folder(url: str) -> bool:
    return "://" not in url or url.startswith("file:")


def _is_below(url: str, folders: Sequence[str]) -> bool:
    path = PurePosixPath(urlsplit(url).path if url.startswith("file:") else url)
    return any(path.is_relative_to(folder) for folder in folders)
